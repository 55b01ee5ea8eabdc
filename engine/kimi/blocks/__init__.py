"""The layers of the Kimi K3 family: each a set of weights that is called with the tokens of a step."""
