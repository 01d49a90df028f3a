"""Names of the array types that cross module borders.

Axis words: ``batch`` designs, ``length`` canvas positions (padded to a bucket), ``vocab`` letters. In short code
the same axes are B, L, V, and S is automaton states. Enforced under test (see tests/conftest.py).
"""

from jaxtyping import Array, Bool, Float, Int, Key

Canvas = Int[Array, "length"]
Canvases = Int[Array, "batch length"]
Valid = Bool[Array, "length"]
Valids = Bool[Array, "batch length"]
LogProposal = Float[Array, "length vocab"]
Logits = Float[Array, "batch length vocab"]
Times = Float[Array, "batch"]
RowKey = Key[Array, ""]
RowKeys = Key[Array, "batch"]
