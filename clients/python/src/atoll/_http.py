# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on asyncio's streams: as much of it as a client of one server needs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ._calls import Place

HEAD_LIMIT = 65536
BROKEN = (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError, ValueError)


class Answer:
    """A head that was read, and a body that is read as it comes."""

    def __init__(self, connection: Connection, status: int, headers: dict[str, str]) -> None:
        self._connection = connection
        self.status = status
        self.headers = headers
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        self._left = int(length) if length is not None and not self._chunked else None
        if status in (204, 304):
            self._left, self._chunked = 0, False
        self.keeps = headers.get("connection", "").lower() != "close" and (self._chunked or self._left is not None)
        self.is_done = False

    async def pieces(self) -> AsyncIterator[bytes]:
        reader = self._connection.reader
        if self._chunked:
            while size := int((await reader.readline()).split(b";")[0].strip() or b"x", 16):
                while size:
                    data = await reader.read(min(size, 65536))
                    if not data:
                        raise EOFError("the body breaks off")
                    size -= len(data)
                    yield data
                await reader.readexactly(2)
            while (await reader.readline()).strip():
                pass
        elif self._left is None:
            while data := await reader.read(65536):
                yield data
        else:
            left = self._left
            while left:
                data = await reader.read(min(left, 65536))
                if not data:
                    raise EOFError("the body breaks off")
                left -= len(data)
                yield data
        self.is_done = True

    async def whole(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @staticmethod
    async def open(place: Place, context: ssl.SSLContext | None) -> Connection:
        if place.scheme == "unix":
            reader, writer = await asyncio.open_unix_connection(place.host, limit=HEAD_LIMIT)
        else:
            secure = (context or ssl.create_default_context()) if place.scheme == "https" else None
            reader, writer = await asyncio.open_connection(place.host, place.port, ssl=secure, limit=HEAD_LIMIT)
        return Connection(reader, writer)

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if isinstance(body, bytes) or (body is None and method in ("POST", "PUT")):
            lines.append(f"Content-Length: {len(body or b'')}")
        elif body is not None:
            lines.append("Transfer-Encoding: chunked")
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await self._send(body)
        return await self._head()

    async def _send(self, body: Any) -> None:
        if isinstance(body, bytes):
            self.writer.write(body)
        elif body is not None:
            while data := await asyncio.to_thread(body.read, 1 << 18):
                self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                await self.writer.drain()
            self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def _head(self) -> Answer:
        while True:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(head[0].split(" ", 2)[1])
            if status != 100:
                break
        headers = {}
        for line in head[1:]:
            name, colon, value = line.partition(":")
            if colon:
                headers[name.lower()] = value.strip()
        return Answer(self, status, headers)

    def close(self) -> None:
        self.writer.close()
