"""What runs in place of Data Designer: one request per record, then one file with all records. Standard library only.

``LOCAL_TEST_GATE`` is a folder: the program makes the file ``working`` there after its first record, and goes on when
the file ``open`` exists. ``LOCAL_TEST_PROGRAM`` lets it end otherwise: ``no-result``, ``short`` or ``fail``. It heeds
the proxies of its environment, as most programs do.
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

PATIENCE_S = 60.0


def main() -> int:
    does = os.environ.get("LOCAL_TEST_PROGRAM", "")
    offset, records = int(os.environ["DD_SLURM_RECORD_OFFSET"]), int(os.environ["DD_SLURM_NUM_RECORDS"])
    lines = []
    for number in range(offset, offset + records):
        lines.append(json.dumps({"number": number, "text": ask(f"record {number}")}))
        wait_at_gate()
    if does == "fail":
        return 3
    if does == "short":
        lines.pop()
    if does != "no-result":
        Path(os.environ["DD_SLURM_OUTPUT_DIR"], "records.jsonl").write_text("\n".join(lines) + "\n")
    return 0


def ask(text: str) -> str:
    """The server's answer. A client of a service that may restart asks again."""
    (endpoint,) = json.loads(Path(os.environ["DD_SLURM_ENDPOINTS"]).read_text()).values()
    body = {"model": endpoint["model"], "messages": [{"role": "user", "content": text}], "max_tokens": 4}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(body).encode(), headers
    )
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return str(json.load(answer)["choices"][0]["message"]["content"])
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def wait_at_gate() -> None:
    gate = os.environ.get("LOCAL_TEST_GATE")
    if gate is None:
        return
    Path(gate, "working").touch()
    while not Path(gate, "open").exists():
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
