"""gRPC's own lines on stderr, kept to what is an error of gRPC."""

import os


def silence_grpc() -> None:
    """A handshake that failed is told by us, in words. Works only before gRPC is first imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
