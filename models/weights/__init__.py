"""Weights of other people: where they are, readers that run no foreign code, and a cache of converted models.

:mod:`~seqdiff.models.weights.catalogue` names the models, :mod:`~seqdiff.models.weights.sources` brings their files,
:mod:`~seqdiff.models.weights.checkpoint` and :mod:`~seqdiff.models.weights.torch_file` read them, and
:mod:`~seqdiff.models.weights.cache` keeps each one as an ordinary model folder.
"""
