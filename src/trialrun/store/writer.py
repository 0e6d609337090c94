"""The one thread that writes. It takes a batch, makes it durable, and tells the event loop."""

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

from trialrun.store.batch import Batch
from trialrun.store.database import Database


class Writer:
    """Owns the writing connection from `start` to `stop`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._queue: SimpleQueue[tuple[Batch, Callable[[Batch], None]] | None] = SimpleQueue()
        # A daemon: a process that dies of its own error must not wait for us; what is not committed is not durable.
        self._thread = threading.Thread(target=self._work, name="trialrun-journal", daemon=True)
        self._thread.start()

    def submit(self, batch: Batch, then: Callable[[Batch], None]) -> None:
        """Write this batch; `then` is called in its loop when it is durable or has failed."""
        self._queue.put((batch, then))

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Finish what was submitted, and end."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            batch, then = item
            try:
                batch.write(self._db)
            except BaseException as error:  # noqa: BLE001  # whoever waits for the batch must hear of it
                batch.error = self._db.trouble(error)
            batch.finished.set()
            if batch.loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop is gone; the next one looks at `finished`
                    batch.loop.call_soon_threadsafe(then, batch)
            del item, batch, then
