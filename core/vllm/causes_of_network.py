"""Known causes between processes: ports, rendezvous, NCCL and Gloo; and the words that only tell of an end."""

from core.vllm.known_cause import KnownCause

NETWORK_CAUSES = (
    KnownCause(
        code="port-in-use",
        title="a port is taken",
        patterns=(r"\[Errno 98\]", r"EADDRINUSE", r"[Aa]ddress already in use"),
        hint="another process of the node has it, maybe one that was left behind (`ss -ltnp` there): ports are chosen "
        "anew at a restart (`on_failure.policy: restart`); `ports.range` of the profile keeps away from others",
    ),
    KnownCause(
        code="address-not-local",
        title="the server was told an address that its node does not have",
        patterns=(r"\[Errno 99\]", r"[Cc]annot assign requested address"),
        hint="the node's name leads to another address than its interface has: name the interface (`network.interface` "
        "of the profile)",
    ),
    KnownCause(
        code="nccl-interface",
        title="NCCL finds no network interface",
        patterns=(r"[Bb]ootstrap ?: no socket interface found", r"No interface found (?:in|with)"),
        hint="NCCL_SOCKET_IFNAME names an interface that the node does not have: mend `network.interface` of the "
        "profile, or take the variable out of `server.environment`",
    ),
    KnownCause(
        code="gloo-interface",
        title="Gloo meets at a wrong address",
        patterns=(
            r"Gloo connectFullMesh failed",
            r"ifa != nullptr\. Unable to find (?:address|interface) for",
            r"Unable to resolve hostname to a \(local\) address",
        ),
        hint="the node's name leads to 127.x or to another network: name the interface between nodes "
        "(`network.interface` of the profile); GLOO_SOCKET_IFNAME takes one name, no list",
    ),
    KnownCause(
        code="nccl-connect",
        title="NCCL cannot reach another rank",
        patterns=(
            r"Connect to \S+ (?:failed|returned).*(?:refused|No route to host|timed out|aborted|unreachable)",
            r"socketStartConnect: Connect to \S+ failed",
        ),
        hint="a firewall between nodes, or the wrong network: name the interface (`network.interface` of the profile); "
        "when the other rank died first, its log has the cause",
        weight="symptom",
    ),
    KnownCause(
        code="rendezvous",
        title="the ranks did not all meet in time",
        patterns=(
            r"Timed out after \d+ seconds waiting for clients",
            r"client socket has timed out after \d+ ?ms",
            r"DistStoreError",
            r"DistNetworkError: (?!.*(?:EADDRINUSE|already in use))",
            r"RuntimeError: Wait timeout",
            r"Did not receive response from front-end process within",
        ),
        hint="look for a rank that never started or died (its log), for a firewall, for "
        "`network.interface` of the profile; slow file systems need a longer `server.distributed_init_timeout`",
        weight="symptom",
    ),
    KnownCause(
        code="nccl-timeout",
        title="a rank waited in vain for the others",
        patterns=(r"Watchdog caught collective operation timeout", r"Some NCCL operations have failed or timed out"),
        hint="another rank hangs or died, or the network between nodes is down: look at the other logs of this "
        "launch; NCCL_DEBUG=INFO in `server.environment` tells more",
        weight="symptom",
    ),
    KnownCause(
        code="nccl",
        title="NCCL failed",
        patterns=(
            r"NCCL error(?: in)?: ",
            r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclRemoteError|ncclInvalidUsage",
        ),
        hint="set NCCL_DEBUG to INFO in `server.environment` and look at the first NCCL WARN of all logs",
        weight="symptom",
    ),
    KnownCause(
        code="peer-lost",
        title="the connection to another rank was lost",
        patterns=(
            r"Connection (?:reset|closed) by (?:remote )?peer",
            r"Connection closed by remote peer",
            r"BrokenPipeError",
            r"recvBytes.*Connection was likely closed",
        ),
        hint="the other rank died first: its log, on its node, has the cause",
        weight="echo",
    ),
    KnownCause(
        code="engine-start-slow",
        title="the engine was not up in time",
        patterns=(r"Timed out waiting for engine (?:core )?processes to start",),
        hint="weights load slowly: raise `server.startup_timeout`, or put the model on a faster disk",
        weight="symptom",
    ),
    KnownCause(
        code="step-timeout",
        title="a step of the model took too long",
        patterns=(r"RPC call to \w+ timed out", r"TimeoutError: (?:RPC|Execut)"),
        hint="a worker hangs: look at the logs of all ranks of this launch; the limit is "
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS in `server.environment`",
        weight="symptom",
    ),
    KnownCause(
        code="compile-failed",
        title="the model could not be compiled",
        patterns=(r"BackendCompilerFailed", r"InductorError", r"torch\._dynamo\.exc\.\w+"),
        hint="add --enforce-eager to `server.extra_args` to see whether it runs without; then look for another vLLM",
        weight="symptom",
    ),
    KnownCause(
        code="model-file-broken",
        title="a JSON file of the model cannot be read",
        patterns=(r"json\.decoder\.JSONDecodeError",),
        hint="the traceback names who read it: tokenizer.json, tokenizer_config.json, generation_config.json or the "
        "index of the weights; copy the model again",
        weight="symptom",
    ),
    KnownCause(
        code="architecture-inspection",
        title="the model's code could not be looked at",
        patterns=(r"failed to be inspected",),
        hint="the error before it in the log is the cause: often an import that fails or a GPU mask",
        weight="symptom",
    ),
)

ENDS = (
    KnownCause(
        code="segmentation-fault",
        title="the process was ended by a segmentation fault",
        patterns=(r"[Ss]egmentation fault", r"\bSIGSEGV\b", r"Segfault encountered", r"died unexpectedly .*: -11\)"),
        hint="a fault in compiled code: driver, NCCL or a kernel; try --enforce-eager in `server.extra_args`, or "
        "another image",
        weight="symptom",
        exits=(-11,),
    ),
    KnownCause(
        code="aborted",
        title="the process aborted itself",
        patterns=(r"terminate called after throwing", r"\bSIGABRT\b", r"^Aborted\b", r"died unexpectedly .*: -6\)"),
        hint="the lines before it in the log tell why",
        weight="end",
        exits=(-6,),
    ),
    KnownCause(
        code="worker-died",
        title="a worker died without a word",
        patterns=(r"Worker proc \S+ died unexpectedly", r"RayWorkerProc \S+ died unexpectedly"),
        hint="mostly killed: by the kernel for want of memory (`dmesg` on the node, "
        "`scheduler.mem_per_gpu` of the profile) or by a signal; the other logs of this launch may say more",
        weight="symptom",
    ),
    KnownCause(
        code="engine-died",
        title="the engine died",
        patterns=(
            r"EngineDeadError",
            r"EngineCore encountered (?:a fatal error|an issue)",
            r"Engine core proc \S+ died unexpectedly",
        ),
        hint="the first error above that line in the log says more; without one it was killed, or the cause stands in "
        "the log of another rank",
        weight="end",
    ),
    KnownCause(
        code="engine-start",
        title="the engine did not start",
        patterns=(
            r"Engine core initialization failed",
            r"WorkerProc initialization failed",
            r"EngineCore failed to start",
        ),
        hint="the root cause stands above that line in the log, or in the log of another rank",
        weight="end",
    ),
    KnownCause(
        code="tokenizer-fork",
        title="a process was forked after tokenizers had started threads",
        patterns=(r"The current process just got forked, after parallelism has already been used",),
        hint="seldom the cause; when the server hangs there, set TOKENIZERS_PARALLELISM to false in "
        "`server.environment`",
        weight="end",
    ),
)
