#!/usr/bin/env bash
# How protein-small was trained: four runs, each from the averaged weights of the one before. About two hours on two cores.
#   experiments/recipes/protein_small.sh TRAIN.fasta[.gz|.xz] [FOLDER]
# Running it again continues where it stopped. Crops of 128 first, because they cost least per token; full chains last.
set -euo pipefail
data=$1
runs=${2:-runs/protein-small}

stage() { # name, start, then overrides
  local name=$1 start=$2
  shift 2
  seqdiff train data.train="$data" out="$runs/$name" ${start:+init_from="$runs/$start/model"} save_every=100 "$@"
}

# The likelihood bound on short crops, constant rate.
stage 1 "" optimizer.rate=0.002 optimizer.decay_fraction=0 length=128 batch=32 steps=1100
# Mean over masked letters: less noisy, so more is learned from each residue. A short decay, then a long constant run.
stage 2 1 objective=masked min_time=0.05 max_time=0.8 optimizer.rate=0.002 optimizer.warmup=20 \
  optimizer.decay_fraction=0.9 optimizer.ema_decay=0.9 length=128 batch=32 steps=200 seed=5
stage 3 2 objective=masked min_time=0.05 max_time=0.8 optimizer.rate=0.002 optimizer.warmup=50 \
  optimizer.decay_fraction=0 length=128 batch=32 steps=1700 seed=1
# The bound again, on windows of 384 tokens, decaying to zero.
stage 4 3 min_time=0.05 optimizer.rate=0.002 optimizer.warmup=20 optimizer.decay_fraction=0.98 \
  optimizer.ema_decay=0.98 length=384 batch=10 steps=1500 seed=2
