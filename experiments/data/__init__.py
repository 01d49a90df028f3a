"""Corpora: random access to the sequences of files of any size."""

from seqdiff.experiments.data.corpus import Corpus, open_corpus

__all__ = ["Corpus", "open_corpus"]
