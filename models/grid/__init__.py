"""Networks that predict the edges of a graph, given some of them."""
