"""Sudoku: training a looped network on generated boards and measuring it without constraints."""
