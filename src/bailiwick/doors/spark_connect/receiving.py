"""The pieces of rows in one call of AddArtifacts, taken one message after the other.

Small ones come several in a message, larger ones in chunks over many. What each message may hold, `screen.py`
has looked at: nothing but rows comes as far as this.
"""

import zlib
from typing import Any, Final

from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect.brought_rows import Arriving, BroughtRows
from bailiwick.doors.spark_connect.unpacking import too_much
from bailiwick.doors.spark_connect.values import ROWS_NAME
from bailiwick.errors import BailiwickError, Code

ARTIFACTS_MAX: Final = 1_000
"""In one call. Each is told what became of it."""


class Receiving:
    """Close it when the call has ended, however it has."""

    def __init__(self, rows: BroughtRows) -> None:
        self._rows = rows
        self._summaries: list[Any] = []
        self._arriving: Arriving | None = None
        self._name = ""
        self._chunks_left = 0
        self._is_sound = True

    async def take(self, request: Any) -> None:
        """One message. INVALID_ARGUMENTS for what does not follow from those before it."""
        match request.WhichOneof("payload"):
            case "batch":
                for artifact in request.batch.artifacts:
                    await self._begin(artifact.name, len(artifact.data.data), 1)
                    await self._add(artifact.data)
            case "begin_chunk":
                begun = request.begin_chunk
                await self._begin(begun.name, begun.total_bytes, begun.num_chunks)
                await self._add(begun.initial_chunk)
            case "chunk":
                await self._add(request.chunk)

    def summaries(self) -> list[Any]:
        """What became of each, once all have come."""
        if self._arriving is not None:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "The call ended in the middle of an artifact.")
        return self._summaries

    def close(self) -> None:
        if self._arriving is not None:
            self._arriving.abandon()
            self._arriving = None

    async def _begin(self, name: str, size_bytes: int, chunk_count: int) -> None:
        known = ROWS_NAME.fullmatch(name)
        if self._arriving is not None or known is None:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "An artifact began where none can begin.")
        # Chunks without bytes would have no end.
        if size_bytes < 0 or not 1 <= chunk_count <= max(1, size_bytes):
            raise BailiwickError(
                Code.INVALID_ARGUMENTS, f"An artifact of {size_bytes} bytes has not {chunk_count} chunks."
            )
        if len(self._summaries) >= ARTIFACTS_MAX:
            raise too_much(f"At most {ARTIFACTS_MAX} artifacts come in one call.", "artifacts_max")
        self._arriving = self._rows.begin(known[1], size_bytes)
        self._name, self._chunks_left, self._is_sound = name, chunk_count, True

    async def _add(self, chunk: Any) -> None:
        arriving = self._arriving
        if arriving is None:
            raise BailiwickError(Code.INVALID_ARGUMENTS, "A chunk came that belongs to no artifact.")
        self._is_sound = self._is_sound and zlib.crc32(chunk.data) == chunk.crc
        self._chunks_left -= 1
        await arriving.add(chunk.data)
        if self._chunks_left == 0:
            if self._is_sound:
                await arriving.end()
            self.close()
            summary = proto.AddArtifactsResponse.ArtifactSummary
            self._summaries.append(summary(name=self._name, is_crc_successful=self._is_sound))
