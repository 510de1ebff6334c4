"""The keeper: starts an engine somewhere, watches it, and brings it to a gateway.

It sees no policy and no person's token. What passes between gateway and engine it forwards as it comes.
"""
