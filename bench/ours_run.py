"""Trialrun in the side-by-side harness: its adapter, under the name that the harness looks for.

The harness, a set of scripts outside this repository, runs tools that many would pick instead against one mock server.
It gives each the same arguments and prompts (its own `common`), and every tool keeps the journal and the log that its
users get. Copy this file into its `adapters/`, and let `BENCH_OURS` name a Python that has Trialrun.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import trialrun as tr

_CALLS: Any = importlib.import_module("common")


def study(arguments: Any) -> "tr.Draft":
    return tr.study(
        {
            "study": "side-by-side",
            "parties": {
                role: {"model": f"openai/{_CALLS.MODEL}", "prompt": prompt, "max_tokens": 300}
                for role, prompt in (*_CALLS.ROLES.items(), ("alone", _CALLS.SYSTEM))
            },
            "replicates": arguments.n,
            "limits": {"open_trials": arguments.concurrency},
            "budget_usd": 1000,
        },
        procedure=talk if arguments.turns > 1 else question,
        home=arguments.out_dir,
    )


async def question(trial: Any, lab: Any) -> dict[str, object]:
    reply = await lab.ask("alone", _CALLS.user_prompt(trial.replicate - 1))
    return {"characters": len(reply.text)}


async def talk(trial: Any, lab: Any) -> dict[str, object]:
    history: list[tuple[str, str]] = []
    for turn in range(_TURNS):
        role = _CALLS.ORDER[turn % 2]
        asked = [
            tr.Message(role=message["role"], text=message["content"])
            for message in _CALLS.messages_for(role, trial.replicate - 1, history)
            if message["role"] != "system"
        ]
        reply = await lab.ask(role, asked)
        lab.say(role, reply)
        history.append((role, reply.text))
    return {"turns": len(history)}


if __name__ == "__main__":
    given = _CALLS.args()
    _TURNS = given.turns
    os.environ["OPENAI_BASE_URL"] = given.base_url
    ran = tr.run(study(given), folder=Path(given.out_dir) / "study")
    if ran.exit:
        sys.exit(int(ran.exit))
    _CALLS.done(given.n * given.turns)
