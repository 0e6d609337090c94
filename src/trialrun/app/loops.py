"""Runs asynchronous work to its end for a caller that is not: a script, a thread, a notebook with its own loop.

Ctrl-C lets calls in flight settle, and only then raises KeyboardInterrupt; a second one stops at once. What a procedure
leaves running, and does not want to end, is left behind and keeps nobody waiting.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from trialrun.app.running import Control

T = TypeVar("T")
_GRACE_S = 1.0


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` for work that runs procedures: it waits for no task that swallows its cancellation."""
    return asyncio.run(_alone(work))


async def _alone(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            _, stubborn = await asyncio.wait(others, timeout=_GRACE_S)
            _leave_behind(stubborn)


def _leave_behind(tasks: "set[asyncio.Task[Any]]") -> None:
    """Keep the end of the loop from waiting for these tasks, and the end of the process from resuming them: each would
    get a GeneratorExit when it is collected, and swallow that too. What a daemon thread holds is never collected."""
    for task in tasks:
        asyncio.tasks._unregister_task(task)  # private in name only, and documented
    if tasks:
        threading.Thread(target=_hold, args=(tasks,), name="trialrun-left-behind", daemon=True).start()


def _hold(_tasks: object) -> None:
    threading.Event().wait()


def waited_for(work: Callable[[], Awaitable[T]], control: Control | None = None) -> T:
    """The result of the work: done in this thread if it has no event loop, else in one of its own."""
    control = control or Control()
    is_main = threading.current_thread() is threading.main_thread()
    result = (
        run_to_end(_interruptible(work, control))
        if is_main and not _has_loop()
        else _in_thread(work, control)
    )
    if control.was_used:
        raise KeyboardInterrupt
    return cast("T", result)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _interruptible(work: Callable[[], Awaitable[T]], control: Control) -> T | None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, control.interrupt)
    try:
        return await work()
    except asyncio.CancelledError:
        if not control.was_used:
            raise
        return None
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _in_thread(work: Callable[[], Awaitable[T]], control: Control) -> T | None:
    outcome: list[T] = []
    failure: list[BaseException] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def told() -> T:
        loops.append(asyncio.get_running_loop())
        return await work()

    def body() -> None:
        try:
            outcome.append(run_to_end(told()))
        except BaseException as error:  # noqa: BLE001  # handed over to the thread that waits
            failure.append(error)

    def interrupt() -> None:
        with suppress(IndexError, RuntimeError):
            loops[0].call_soon_threadsafe(control.interrupt)

    thread = threading.Thread(target=body, name="trialrun")
    with _at_ctrl_c(interrupt):
        thread.start()
        while thread.is_alive():
            thread.join(0.1)
    if not failure:
        return outcome[0]
    if control.was_used and isinstance(failure[0], asyncio.CancelledError):
        return None
    raise failure[0]


@contextmanager
def _at_ctrl_c(interrupt: Callable[[], None]) -> Generator[None]:
    """What Ctrl-C does meanwhile. The loop of a notebook, or `asyncio.run`, would take it for itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(_number: int, _frame: object) -> None:
        interrupt()

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
