#!/usr/bin/env bash
# How the models of graphs are trained. NAME is one of the functions below.
#   experiments/recipes/graphs.sh NAME [FOLDER OF GRAPH FILES] [FOLDER OF RUNS]
# Running it again continues where it stopped. The first two run on one CPU core; the others are sized for a GPU. Words
# after the second are further settings, such as stop_at=10.
set -euo pipefail
name=$1
data=${2:-data/graphs}
runs=${3:-runs/graphs}
shift $(($# < 3 ? $# : 3))

fit() {
  python -m seqdiff.experiments.graphs.train out="$runs/$name" "$@"
}

# 100 graphs of 12 to 20 nodes; every fifth is held out.
community-small() { fit data="$data/community20_all.g6" hold_out=5 steps=900 save_every=100 "$@"; }

# Delaunay triangulations of 12 to 20 uniform points, fresh ones in every batch.
planar-small() { fit data=planar low=12 high=20 steps=2400 save_every=100 "$@"; }

large=(width=128 depth=8 heads=8 hidden=256 channels=64 rate=0.002 average=0.9995)

# The benchmark sets at their published splits: only the training file is read.
planar() { fit data="$data/planar_train.g6" "${large[@]}" batch=32 steps=100000 save_every=1000 "$@"; }
tree() { fit data="$data/tree_train.g6" "${large[@]}" batch=32 steps=50000 save_every=1000 "$@"; }
lobster() { fit data="$data/lobster_train.g6" "${large[@]}" multiple=16 batch=16 steps=50000 save_every=1000 "$@"; }
# Only graphs of up to 128 nodes, which is what the encoding takes: 90 of the 128.
sbm() { fit data="$data/sbm_train.g6" "${large[@]}" multiple=32 batch=8 steps=100000 save_every=1000 "$@"; }

"$name" "$@"
