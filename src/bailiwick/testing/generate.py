"""Writes the protobuf modules in `_generated` anew from `proto/`: `python -m bailiwick.testing.generate`.

The output is committed, so that running Bailiwick needs no compiler. `stale()` tells whether it still fits.
"""

import sys
import tempfile
from pathlib import Path

import bailiwick

PACKAGE = Path(bailiwick.__file__).parent / "_generated"
PROTO = Path(bailiwick.__file__).parents[2] / "proto"


def generate(destination: Path) -> None:
    """Write modules and their type stubs for every file in `proto/`."""
    from importlib.resources import files

    from grpc_tools import protoc  # type: ignore[import-untyped]

    well_known = str(files("grpc_tools") / "_proto")
    arguments = [f"-I{PROTO}", f"-I{well_known}", f"--python_out={destination}", f"--pyi_out={destination}"]
    sources = [path.name for path in sorted(PROTO.glob("*.proto"))]
    if protoc.main(["protoc", *arguments, *sources]) != 0:
        raise RuntimeError("protoc refused the files in proto/")


def stale() -> list[str]:
    """Names of generated files that are not what `proto/` gives now."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        return sorted(
            fresh.name
            for fresh in Path(scratch).iterdir()
            if not (PACKAGE / fresh.name).is_file()
            or fresh.read_bytes() != (PACKAGE / fresh.name).read_bytes()
        )


def main() -> int:
    generate(PACKAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
