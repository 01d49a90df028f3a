"""The request layer: spec -> compile -> sample -> verify -> report; the only place for files and terminals.

(It would be called ``design`` if ``seqdiff.design`` were not the function that it serves.)
"""
