"""Sudoku boards as canvases: geometry (``board``), text formats (``formats``), a solver (``solve``) and a source of
boards and puzzles (``generate``).
"""
