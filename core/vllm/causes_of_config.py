"""Known causes that lie in the model or in what was asked of vLLM. Words of vLLM 0.10 to 0.33 and of its libraries."""

from core.vllm.known_cause import KnownCause

MODEL_CAUSES = (
    KnownCause(
        code="model-path-missing",
        title="the model's folder is not there",
        patterns=(r"Repo id must be in the form .*: '(?P<path>/[^']*)'",),
        hint="{path} does not exist where the server runs: mend `model`, or mount its folder with `container_mounts` "
        "of the profile",
    ),
    KnownCause(
        code="model-config-missing",
        title="the model's folder has no config.json that can be read",
        patterns=(
            r"Invalid repository ID or local directory specified: '(?P<path>[^']*)'",
            r"(?<!\S)(?P<path>\S+) does not appear to have a file named config\.json",
        ),
        hint="{path} is empty, unreadable for you, or another folder than you think: `model` must name the folder "
        "that holds config.json",
    ),
    KnownCause(
        code="model-config-broken",
        title="the model's config.json is not valid",
        patterns=(r"the config file at '(?P<path>[^']*)' is not a valid JSON file",),
        hint="copy the model again: {path} cannot be parsed",
    ),
    KnownCause(
        code="hub-gated",
        title="the model on the hub is gated",
        patterns=(r"GatedRepoError", r"[Cc]annot access gated repo", r"trying to access a gated repo"),
        hint="ask for access on the model's page and give the server HF_TOKEN as a secret in `server.environment`; "
        "or name a local folder as `model`",
    ),
    KnownCause(
        code="hub-unknown",
        title="the hub has no such model",
        patterns=(
            r"RepositoryNotFoundError",
            r"RevisionNotFoundError",
            r"is not a local folder and is not a valid model identifier",
        ),
        hint="mend the id in `model`; a private model needs HF_TOKEN as a secret in `server.environment`",
    ),
    KnownCause(
        code="hub-offline",
        title="the model is not in the cache and the hub may not be asked",
        patterns=(
            r"Cannot find an appropriate cached snapshot folder",
            r"outgoing traffic has been disabled",
            r"OfflineModeIsEnabled",
        ),
        hint="nobody downloads it beforehand when HF_HUB_OFFLINE stands in `server.environment` or a flag names a "
        "further repository (tokenizer, adapter, draft model): download it yourself and give a folder",
    ),
    KnownCause(
        code="hub-unreachable",
        title="the node cannot reach the hub",
        patterns=(
            r"couldn't connect to 'https?://[^']*' to load",
            r"An error happened while trying to locate the files? on the Hub",
            r"(?:huggingface|hf\.co).*(?:Max retries exceeded|Name or service not known|Temporary failure in name)",
            r"(?:ConnectError|ConnectionError|ConnectTimeout|ProxyError).*(?:huggingface|hf\.co)",
        ),
        hint="compute nodes often have no way out: download the model on a login node and give its folder as "
        "`model`, or its cache as HF_HOME in `server.environment`",
    ),
    KnownCause(
        code="remote-code",
        title="the model brings code of its own",
        patterns=(
            r"[Pp]lease pass the argument `trust_remote_code=True`",
            r"contains custom code which must be executed",
            r"requires you to execute the configuration file in that repo",
            r"by setting `trust_remote_code=True`",
        ),
        hint="if you trust it, add --trust-remote-code to `server.extra_args`",
    ),
    KnownCause(
        code="unknown-architecture",
        title="this vLLM does not know the model's architecture",
        patterns=(
            r"Model architectures (?P<model>\[[^\]]*\]) are not supported",
            r"model type `(?P<model>[^`]*)` but Transformers does not recognize this architecture",
            r"(?<!\S)(?P<model>\S+) has no vLLM implementation",
        ),
        hint="{model}: use an image with a newer vLLM (`server.image`), or another model{with_version}",
    ),
    KnownCause(
        code="tokenizer",
        title="the tokenizer cannot be loaded",
        patterns=(
            r"[Cc]ouldn't instantiate the backend tokenizer",
            r"Can't load (?:the )?tokenizer for",
            r"data did not match any variant of untagged enum",
            r"(?:Exception|Error): (?:EOF while parsing|expected value|invalid type).* at line \d+ column \d+",
        ),
        hint="tokenizer.json or tokenizer.model is missing or broken in the model's folder: copy the model again, or "
        "add --tokenizer=<folder> to `server.extra_args`",
    ),
    KnownCause(
        code="weights-missing",
        title="the model's folder has no weights",
        patterns=(r"Cannot find any model weights with `(?P<path>[^`]*)`",),
        hint="{path} has no *.safetensors or *.bin: the copy is not complete, or it is another format "
        "(--load-format in `server.extra_args`)",
    ),
    KnownCause(
        code="weights-broken",
        title="a file of weights is cut off or damaged",
        patterns=(
            r"SafetensorError: (?P<what>.+)",
            r"(?P<what>PytorchStreamReader failed.*)",
            r"(?P<what>safetensors.* is not complete.*)",
        ),
        hint="copy the model again and compare sizes with the source ({what})",
    ),
    KnownCause(
        code="weights-mismatch",
        title="weights and config do not belong together",
        patterns=(
            r"There is no module or parameter named (?P<what>.+)",
            r"Following weights were not initialized from checkpoint: (?P<what>.+)",
            r"size mismatch for (?P<what>.+)",
            r"Attempted to load weight \((?P<what>.+)",
        ),
        hint="the folder mixes two models, or this vLLM does not read this variant: {what}",
    ),
    KnownCause(
        code="chat-template",
        title="the chat template cannot be read",
        patterns=(
            r"chat template string \((?P<path>[^)]*)\) (?:appears path-like|looks like a file path)",
            r"No such file or directory: '(?P<path>[^']*\.jinja)'",
        ),
        hint="{path} is not there where the server runs: mend --chat-template in `server.extra_args`, or mount it",
    ),
    KnownCause(
        code="lora",
        title="a LoRA adapter cannot be loaded",
        patterns=(
            r"LoRAAdapterNotFoundError",
            r"Loading lora \S+ failed: No adapter found",
            r"LoRA rank \d+ is greater than max_lora_rank",
            r"(?:does not|doesn't) support LoRA",
            r"adapter_config\.json",
        ),
        hint="check the paths after --lora-modules in `server.extra_args` and --max-lora-rank",
    ),
)

ASKED_CAUSES = (
    KnownCause(
        code="unknown-flag",
        title="this vLLM does not know a flag",
        patterns=(r"error: unrecognized arguments: (?P<flags>.+)",),
        hint="take {flags} out of `server.extra_args`, or mend the spelling{with_version}",
    ),
    KnownCause(
        code="bad-flag-value",
        title="a flag has a value that vLLM refuses",
        patterns=(r"error: argument (?P<flag>[^:]+): (?P<why>.+)",),
        hint="mend {flag} in `server.extra_args`: {why}",
    ),
    KnownCause(
        code="max-model-len",
        title="more context is asked for than the model has",
        patterns=(
            r"User-specified max_model_len \((?P<wanted>\d+)\) is greater than the derived max_model_len "
            r"\([^)]*?=(?P<most>\d+)",
        ),
        hint="set --max-model-len in `server.extra_args` to {most} or less; {wanted} is too long",
    ),
    KnownCause(
        code="kv-cache-too-small",
        title="the KV cache cannot hold one request of full length",
        patterns=(
            r"To serve at least one request .*max seq len \((?P<wanted>\d+)\).*"
            r"estimated maximum model length is (?P<most>\d+)",
            r"max seq len \((?P<wanted>\d+)\) is larger than the maximum number of tokens that can be stored in KV "
            r"cache \((?P<most>\d+)\)",
        ),
        hint="--max-model-len={most} in `server.extra_args` would fit, {wanted} does not; or more GPUs "
        "(`topology.tensor_parallel`), or a higher --gpu-memory-utilization",
    ),
    KnownCause(
        code="kv-cache-too-small",
        title="the KV cache cannot hold one request of full length",
        patterns=(r"To serve at least one request .*max seq len \((?P<wanted>\d+)\)",),
        hint="lower --max-model-len in `server.extra_args`, {wanted} does not fit; or more GPUs "
        "(`topology.tensor_parallel`), or a higher --gpu-memory-utilization",
    ),
    KnownCause(
        code="kv-cache-none",
        title="no memory is left for the KV cache",
        patterns=(r"No available memory for the cache blocks",),
        hint="the weights fill the GPU: more GPUs (`topology.tensor_parallel`), a quantized model, or a higher "
        "--gpu-memory-utilization in `server.extra_args`",
    ),
    KnownCause(
        code="kv-cache-on-cpu",
        title="the node has less memory than the KV cache is given",
        patterns=(
            r"Available memory on node \d+ \((?P<free>[\d.]+)/[\d.]+ GiB\) on kv cache allocation is less than "
            r"requested memory for kv \((?P<wanted>[\d.]+) GiB\)",
        ),
        hint="{free} GiB are free and {wanted} are asked for: lower VLLM_CPU_KVCACHE_SPACE in `server.environment`",
    ),
    KnownCause(
        code="tensor-parallel",
        title="the model cannot be cut so",
        patterns=(
            r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<size>\d+)\)",
            r"(?P<heads>\d+) is not divisible by (?P<size>\d+)$",
        ),
        hint="`topology.tensor_parallel` must divide {heads}; {size} does not",
    ),
    KnownCause(
        code="quantization",
        title="the quantization does not fit",
        patterns=(
            r"(?P<why>Quantization method specified in the model config \([^)]*\) does not match.*)",
            r"(?P<why>Unknown quantization method: [^.]+)",
            r"(?P<why>(?:The quantization method|Quantization scheme) .*is not supported for the current GPU.*)",
            r"(?<!\S)(?P<why>\S+ is not supported for quantization method.*)",
            r"(?<!\S)(?P<why>\S+ quantization is currently not supported.*)",
            r"(?P<why>Cannot find the config file for \S+)",
        ),
        hint="take --quantization out of `server.extra_args` so that the model's own config decides, or use another "
        "model for these GPUs: {why}",
    ),
    KnownCause(
        code="dtype",
        title="these GPUs cannot compute in bfloat16",
        patterns=(r"Bfloat16 is only supported on GPUs",),
        hint="add --dtype=half to `server.extra_args`, or ask for newer GPUs",
    ),
    KnownCause(
        code="batched-tokens",
        title="fewer tokens per step than one request may have",
        patterns=(r"max_num_batched_tokens \((?P<now>\d+)\) is smaller than max_model_len \((?P<least>\d+)\)",),
        hint="raise --max-num-batched-tokens in `server.extra_args` from {now} to {least}, or lower --max-model-len",
    ),
    KnownCause(
        code="parser-unknown",
        title="vLLM has no such tool or reasoning parser",
        patterns=(r"invalid (?:tool call|reasoning) parser: (?P<name>\S+)",),
        hint="mend the parser's name in `server.extra_args`: {name}{with_version}",
    ),
    KnownCause(
        code="executor",
        title="the executor cannot run this shape",
        patterns=(
            r"Pipeline Parallelism without Ray distributed executor",
            r"collective_rpc should not be called on follower node",
            r"Non-MoE models do not support external data parallel mode",
        ),
        hint="leave `server.executor` at auto and flags of parallelism out of `server.extra_args`: they follow from "
        "`topology`",
    ),
    KnownCause(
        code="too-few-gpus",
        title="the process has fewer GPUs than ranks",
        patterns=(r"World size \((?P<ranks>\d+)\) is larger than the number of available GPUs",),
        hint="{ranks} ranks on one node need as many GPUs: compare `topology` with `gpus_per_node` of profile and "
        "`resources`",
    ),
    KnownCause(
        code="ray-missing",
        title="Ray is not installed where the server runs",
        patterns=(r"Failed to import Ray", r"Ray is not installed", r"No module named 'ray'"),
        hint="use `server.executor: auto`, or an image that has Ray",
    ),
    KnownCause(
        code="port-variable",
        title="VLLM_PORT is set to something that is no port",
        patterns=(r"VLLM_PORT '[^']*' appears to be a URI", r"VLLM_PORT '[^']*' must be a valid integer"),
        hint="take VLLM_PORT out of `server.environment` and of the shell that submits",
    ),
)
