"""What is designed: alphabets, file formats and properties of a field."""
