"""Specs for models of other people; get one first: seqdiff weights get proteinmpnn."""
