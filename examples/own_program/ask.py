"""A client of one's own: asks the model for every record of this shard and writes one JSONL file.

Standard library only. What it is told is in the environment (docs/client.md): where the endpoint is, which records are
meant, and where the file goes. dd-slurm counts its lines and takes the file as the result of the shard.
"""

import json
import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUBJECTS = ("a lighthouse", "a bakery", "a tram driver", "an old map", "a chess club", "a storm")
IN_FLIGHT = 8
PATIENCE_S = 600
"""Servers that failed may be starting again: long enough for that."""


def main() -> None:
    """Every shard has its own part of the numbers, so that no record is made twice."""
    first, count = int(os.environ["DD_SLURM_RECORD_OFFSET"]), int(os.environ["DD_SLURM_NUM_RECORDS"])
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        lines = list(pool.map(record, range(first, first + count)))
    Path(os.environ["DD_SLURM_OUTPUT_DIR"], "stories.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def record(number: int) -> str:
    """One line of the file."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    return json.dumps(
        {"number": number, "subject": subject, "story": ask(f"Tell a story about {subject}, no. {number}.")}
    )


def ask(prompt: str) -> str:
    """The model's answer. 429 means that the servers are full, 502 and 503 that none is there for a moment."""
    (endpoint,) = json.loads(Path(os.environ["DD_SLURM_ENDPOINTS"]).read_text()).values()
    body = {"model": endpoint["model"], "messages": [{"role": "user", "content": prompt}], "max_tokens": 200}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {os.environ['OPENAI_API_KEY']}")
    request.add_header("Content-Type", "application/json")
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return str(json.load(answer)["choices"][0]["message"]["content"])
        except urllib.error.HTTPError as error:
            if error.code not in (429, 502, 503) or time.monotonic() > give_up:
                raise
            time.sleep(float(error.headers.get("Retry-After") or 1))
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(1)


if __name__ == "__main__":
    main()
