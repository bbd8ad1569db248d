"""A program: the real Data Designer makes rows with every kind of column that asks a model; they go to a JSON file.

A process of its own, because Data Designer leaves connections open until its process ends.
"""

import sys
from pathlib import Path
from typing import Any

from data_designer.config import DataDesignerConfigBuilder, LocalStdioMCPProvider, ModelProvider, RunConfig
from data_designer.interface import DataDesigner

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "pets": {"type": "array", "items": {"$ref": "#/$defs/Pet"}, "minItems": 1},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["name", "age", "pets", "note"],
    "$defs": {
        "Pet": {
            "type": "object",
            "properties": {"kind": {"enum": ["cat", "dog"]}, "weight": {"type": "number", "exclusiveMinimum": 0}},
            "required": ["kind", "weight"],
        }
    },
}
SCORES = [
    {"name": "Clarity", "description": "How clear it is.", "options": {1: "not", 2: "a little", 3: "very"}},
    {"name": "Tone", "description": "Which tone it has.", "options": {"friendly": "warm", "cold": "not warm"}},
]
COLUMNS: list[dict[str, Any]] = [
    {
        "name": "topic",
        "column_type": "sampler",
        "sampler_type": "category",
        "params": {"values": ["the sea", "code in general", "JSON"]},
    },
    {"name": "text", "column_type": "llm-text", "prompt": "A sentence about {{ topic }}.", "tool_alias": "tools"},
    {"name": "person", "column_type": "llm-structured", "prompt": "A person who likes {{ text }}"}
    | {"output_format": PERSON},
    {"name": "script", "column_type": "llm-code", "prompt": "About {{ topic }}", "code_lang": "python"},
    {"name": "query", "column_type": "llm-code", "prompt": "About {{ topic }}", "code_lang": "sql:ansi"},
    {"name": "verdict", "column_type": "llm-judge", "prompt": "Judge {{ text }}", "scores": SCORES},
    {"name": "vector", "column_type": "embedding", "target_column": "text"},
    {"name": "checked", "column_type": "validation", "target_columns": ["script"]}
    | {"validator_type": "code", "validator_params": {"code_lang": "python"}},
    {"name": "checked_query", "column_type": "validation", "target_columns": ["query"]}
    | {"validator_type": "code", "validator_params": {"code_lang": "sql:ansi"}},
]
MODELS = [
    {"alias": "m", "model": "served", "provider": "p", "inference_parameters": {"generation_type": "chat-completion"}},
    {"alias": "v", "model": "served", "provider": "p", "inference_parameters": {"generation_type": "embedding"}},
]
TOOLS = [{"tool_alias": "tools", "providers": ["local"]}]


def main(url: str, records: str, folder: str) -> None:
    asking = {"embedding": {"model_alias": "v"}}
    asking |= {f"llm-{kind}": {"model_alias": "m"} for kind in ("text", "structured", "code", "judge")}
    columns = [column | asking.get(column["column_type"], {}) for column in COLUMNS]
    config: dict[str, object] = {"data_designer": {"columns": columns, "model_configs": MODELS, "tool_configs": TOOLS}}
    script = str(Path(__file__).with_name("tool_server.py"))
    designer = DataDesigner(
        Path(folder),
        model_providers=[ModelProvider(name="p", endpoint=url, provider_type="openai", api_key="SIMULATED_KEY")],
        mcp_providers=[LocalStdioMCPProvider(name="local", command=sys.executable, args=[script])],
    )
    designer.set_run_config(RunConfig.model_validate({"otel_metrics_port": None, "max_conversation_restarts": 0}))
    results: Any = designer.create(DataDesignerConfigBuilder.from_config(config), num_records=int(records))
    results.load_dataset().to_json(Path(folder) / "rows.json", orient="records")


if __name__ == "__main__":
    main(*sys.argv[1:])
