"""A TCP proxy that cuts and delays what passes through it."""

import asyncio
import socket
import struct
import threading

# Closing then sends a reset: what is under way is lost.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Hands on what comes to `address` to `target`, and back.

    All of it arrives `latency` seconds late at least, so that a job takes its
    time on any machine. Lives in a thread of its own; its methods may be called
    from any other.
    """

    def __init__(self, address, target, latency):
        self._address = address
        self._target = target
        self._latency = latency
        self._held_until = 0.0
        self._loses_answers = False
        self._writers = {}  # Both ends of each connection, the oldest first.
        self._tasks = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._call(self._listen()).result()

    def cut(self, seconds):
        """Loses all answers for so long and then resets every connection.

        So what was asked is done, and nobody hears of it.
        """
        self._call(self._cut(seconds)).result()

    def lead_to(self, target):
        """What is opened from now on leads to `target`.

        The connection that was opened first stays, the others are reset.
        """
        self._call(self._lead_to(target)).result()

    def hold(self, seconds):
        """Nothing passes for so long; then all of it does."""
        self._call(self._hold(seconds)).result()

    def close(self):
        self._call(self._close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    @staticmethod
    def _split(address):
        host, port = address.rsplit(":", 1)
        return host, int(port)

    async def _listen(self):
        host, port = self._split(self._address)
        self._server = await asyncio.start_server(self._serve, host, port)

    async def _cut(self, seconds):
        self._loses_answers = True
        await asyncio.sleep(seconds)
        self._loses_answers = False
        self._reset(list(self._writers))

    async def _lead_to(self, target):
        self._target = target
        self._reset(list(self._writers)[2:])

    @staticmethod
    def _reset(writers):
        for writer in writers:
            end = writer.get_extra_info("socket")
            if end.fileno() == -1:
                continue  # Already closed; its other half has not ended yet.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def _hold(self, seconds):
        self._held_until = self._loop.time() + seconds

    async def _close(self):
        self._server.close()
        await self._cut(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        self._writers[writer] = None
        try:
            far_reader, far_writer = await asyncio.open_connection(
                *self._split(self._target))
        except OSError:  # Nobody is there now.
            writer.close()
            self._writers.pop(writer, None)
            self._tasks.discard(task)
            return
        self._writers[far_writer] = None
        ends = (writer, far_writer)
        try:
            await asyncio.gather(self._pump(reader, far_writer, ends),
                                 self._pump(far_reader, writer, ends))
        finally:
            for end in ends:
                end.close()
                self._writers.pop(end, None)
            self._tasks.discard(task)

    async def _pump(self, reader, writer, ends):
        """Until one end closes; if it breaks, so does the other."""
        try:
            await self._hand_on(reader, writer, is_answer=writer is ends[0])
        except OSError:
            for end in ends:
                end.transport.abort()

    async def _hand_on(self, reader, writer, is_answer):
        while data := await reader.read(1 << 20):
            await asyncio.sleep(self._latency)
            while (held := self._held_until - self._loop.time()) > 0:
                await asyncio.sleep(held)
            if is_answer and self._loses_answers:
                continue
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
