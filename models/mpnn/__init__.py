"""The ProteinMPNN family: sequences for given backbones, any order, in JAX."""
