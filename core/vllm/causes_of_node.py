"""Known causes that lie in a node: GPUs, memory, files, the installation. Words of CUDA, torch, Python and Slurm."""

from core.vllm.known_cause import KnownCause

GPU_CAUSES = (
    KnownCause(
        code="gpu-memory-taken",
        title="somebody else holds memory of the GPU",
        patterns=(r"Free memory on device (?:\S+ )?\((?P<free>[\d.]+)/(?P<all>[\d.]+) GiB\) on startup is less than",),
        hint="only {free} of {all} GiB are free: look with nvidia-smi on that node for processes that were left "
        "behind; do not put two deployments on one GPU; or lower --gpu-memory-utilization in `server.extra_args`",
    ),
    KnownCause(
        code="gpu-memory-sampler",
        title="the GPU's memory did not suffice for so many requests at once",
        patterns=(r"out of memory occurred when warming up \w+ .*?with (?P<requests>\d+) dummy requests",),
        hint="lower --max-num-seqs (now {requests}) or --gpu-memory-utilization in `server.extra_args`",
        refines="gpu-memory",
    ),
    KnownCause(
        code="gpu-memory",
        title="the GPU's memory did not suffice",
        patterns=(
            r"(?:CUDA|HIP) out of memory\. Tried to allocate",
            r"(?:CUDA|HIP) error: out of memory",
            r"Cuda failure (?:\d+ )?'out of memory'",
            r"CUBLAS_STATUS_ALLOC_FAILED",
        ),
        hint="more GPUs (`topology.tensor_parallel`), a quantized model, or in `server.extra_args` a lower "
        "--max-model-len, --max-num-seqs or --gpu-memory-utilization",
    ),
    KnownCause(
        code="driver-too-old",
        title="the node's GPU driver is too old for this vLLM",
        patterns=(
            r"NVIDIA driver on your system is too old",
            r"CUDA driver version is insufficient",
            r"the provided PTX was compiled with an unsupported toolchain",
            r"Error 80[34]: ",
        ),
        hint="use an image built for the CUDA version that nvidia-smi shows on the node (`server.image`); without a "
        "container, a vLLM for that CUDA version",
    ),
    KnownCause(
        code="no-gpu",
        title="the process sees no GPU",
        patterns=(
            r"No CUDA GPUs are available",
            r"Failed to infer device type",
            r"Found no NVIDIA driver on your system",
            r"no CUDA-capable device is detected",
            r"libcuda\.so\.1: cannot open shared object file",
            r"Device string must not be empty",
        ),
        hint="check that the job got GPUs (`gpus_per_node`, `gpu_request_mode` of the profile), that the container "
        "shows them (`container`), and that CUDA_VISIBLE_DEVICES is not set in `server.environment`",
    ),
    KnownCause(
        code="device-ordinal",
        title="a GPU number that the process does not have",
        patterns=(r"invalid device ordinal",),
        hint="the node has fewer GPUs than the profile's `gpus_per_node` says, or CUDA_VISIBLE_DEVICES is set in "
        "`server.environment`",
    ),
    KnownCause(
        code="uuid-mask",
        title="this vLLM cannot read GPU masks by UUID",
        patterns=(r"invalid literal for int\(\) with base 10: '(?P<mask>(?:GPU|MIG)-[^']*)'",),
        hint="{mask}: use vLLM 0.24 or newer (`server.image`), or let Slurm give GPUs by index{with_version}",
    ),
    KnownCause(
        code="gpu-too-old",
        title="this vLLM has no code for these GPUs",
        patterns=(
            r"no kernel image is available for execution on the device",
            r"compute capability below",
            r"sm_\d+ is not compatible with the current PyTorch installation",
        ),
        hint="ask for other GPUs (`submission.partition`), or use an image that was built for these (`server.image`)",
    ),
    KnownCause(
        code="gpu-busy",
        title="the GPU lets no further process in",
        patterns=(r"CUDA-capable device(?:\(s\)|s) (?:is/)?are busy or unavailable",),
        hint="the GPU is in exclusive mode or another process holds it: look with nvidia-smi on that node; one "
        "process per GPU",
    ),
    KnownCause(
        code="gpu-not-initialized",
        title="the node's GPUs are not ready",
        patterns=(r"Error 802: ", r"system not yet initialized", r"CUDA_ERROR_SYSTEM_NOT_READY"),
        hint="the Fabric Manager of that node does not run: tell the cluster's people, and run the shard "
        "again on other nodes",
    ),
    KnownCause(
        code="gpu-broken",
        title="a GPU has failed",
        patterns=(
            r"uncorrectable ECC error",
            r"GPU has fallen off the bus",
            r"Unable to determine the device handle for GPU",
            r"CUDA error: unspecified launch failure",
        ),
        hint="tell the cluster's people which node it was, and run the shard again on other nodes",
    ),
    KnownCause(
        code="gpu-kernel",
        title="code on the GPU went wrong",
        patterns=(r"illegal memory access was encountered", r"device-side assert triggered", r"misaligned address"),
        hint="often a fault of one kernel: try --enforce-eager in `server.extra_args`, another attention backend, or "
        "another vLLM; when it is always the same node, its GPU may be broken",
    ),
    KnownCause(
        code="cuda-fork",
        title="a worker was forked after CUDA had started",
        patterns=(r"Cannot re-initialize CUDA in forked subprocess",),
        hint="set VLLM_WORKER_MULTIPROC_METHOD to spawn in `server.environment`",
    ),
)

SYSTEM_CAUSES = (
    KnownCause(
        code="shared-memory",
        title="/dev/shm is too small",
        patterns=(
            r"Insufficient space in /dev/shm",
            r"Error while creating shared memory segment",
            r"failed to extend /dev/shm/",
            r"posix_fallocate failed",
            r"insufficient shared memory",
            r"No space left on device: '?/(?:dev/shm/|psm_|torch_|nccl)",
            r"unable to (?:write to file|open shared memory object) </torch_",
        ),
        hint="the container gives too little shared memory (enroot and apptainer take the host's, other runtimes "
        "64 MB): enlarge /dev/shm on the node, or remove what dead jobs left there",
    ),
    KnownCause(
        code="bus-error",
        title="the process was ended by a bus error",
        patterns=(r"\bBus error\b", r"\bSIGBUS\b", r"died unexpectedly \(exit code: -7\)"),
        hint="nearly always /dev/shm is full, or a memory-mapped file on a network file system was cut off: look at "
        "`df /dev/shm` on that node",
        exits=(-7,),
    ),
    KnownCause(
        code="host-memory",
        title="the node's main memory did not suffice",
        patterns=(
            r"oom[-_]kill event",
            r"Out Of Memory",
            r"Out of memory: Killed process",
            r"DefaultCPUAllocator: (?:can't|not enough)",
            r"Cannot allocate memory",
            r"^MemoryError\b",
            r"std::bad_alloc",
        ),
        hint="ask for more memory (`scheduler.mem_per_gpu` of the profile); CPU offloading in `server.extra_args` "
        "needs memory too",
    ),
    KnownCause(
        code="killed",
        title="the process was killed from outside",
        patterns=(r"^Killed$", r"died unexpectedly \(exit code: -9\)"),
        hint="mostly the kernel, because the memory of job or node was used up (`dmesg` on the node, "
        "`scheduler.mem_per_gpu` of the profile), else somebody's kill -9",
        exits=(-9,),
    ),
    KnownCause(
        code="disk-full",
        title="a disk is full",
        patterns=(r"No space left on device", r"Disk quota exceeded", r"Not enough disk space"),
        hint="caches and temporary files need room: clear the disk or the quota, or point HF_HOME, VLLM_CACHE_ROOT or "
        "TMPDIR in `server.environment` to another one",
    ),
    KnownCause(
        code="not-writable",
        title="a folder may not be written",
        patterns=(
            r"(?:Permission denied|Read-only file system): '?(?P<path>/[^']*)",
            r"(?<!\S)(?P<path>\S+) is not (?:a )?writable",
        ),
        hint="{path}: point HF_HOME, VLLM_CACHE_ROOT or HOME in `server.environment` to a folder that you may write, "
        "or mount it without read_only",
    ),
    KnownCause(
        code="stale-file",
        title="a file on a network file system has vanished underneath",
        patterns=(r"Stale (?:NFS )?file handle", r"Device or resource busy: '[^']*\.nfs"),
        hint="the folder was replaced while it was read, or the mount of that node is stale: run the shard again "
        "on other nodes; caches belong on a local disk",
    ),
    KnownCause(
        code="open-files",
        title="too many open files",
        patterns=(r"Too many open files",),
        hint="raise the limit of open files (ulimit -n) where the job is submitted, Slurm hands it on; 65536 is plenty",
    ),
    KnownCause(
        code="threads",
        title="no further process or thread may be started",
        patterns=(
            r"can't start new thread",
            r"pthread_create failed",
            r"Resource temporarily unavailable",
            r"Thread creation failed",
        ),
        hint="raise the limit of processes (ulimit -u, or the cgroup's pids), or set OMP_NUM_THREADS in "
        "`server.environment`",
    ),
    KnownCause(
        code="system-too-old",
        title="the node's system is too old for this vLLM",
        patterns=(r"version `(?P<what>(?:GLIBC|GLIBCXX|CXXABI)_[^']*)' not found",),
        hint="{what} is missing: run vLLM in a container (`server.image`, `container` of the profile)",
    ),
    KnownCause(
        code="python-import",
        title="Python cannot import what it needs",
        patterns=(
            r"ModuleNotFoundError: (?P<what>No module named .+)",
            r"ImportError: (?P<what>.+)",
            r"PackageNotFoundError: (?P<what>.+)",
            r"(?<!\S)(?P<what>\S+: undefined symbol: \S+)",
            r"AttributeError: (?P<what>(?:partially initialized )?module .+)",
        ),
        hint="{what}: the installation mixes versions, or something of yours stands before it: look at PYTHONPATH "
        "and ~/.local (PYTHONNOUSERSITE is set for servers), and at --middleware in `server.extra_args`",
    ),
    KnownCause(
        code="executable-missing",
        title="the server's executable is not there",
        patterns=(
            r"No such file or directory: '(?P<what>\S*vllm)'",
            r"(?P<what>vllm): (?:command )?not found",
            r"execve\(\): (?P<what>[^:]+): No such file or directory",
        ),
        hint="{what} is not found where the server runs: mend `server.executable`, PATH, or `server.image`",
    ),
    KnownCause(
        code="compiler-missing",
        title="code must be compiled on the node and cannot be",
        patterns=(
            r"Could not find nvcc",
            r"nvcc: not found",
            r"No such file or directory: '\S*(?:nvcc|ninja|gcc)'",
            r"Failed to find C compiler",
            r"Ninja is required",
            r"fatal error: (?:Python|cuda_runtime)\.h: No such file",
            r"ninja: build stopped",
        ),
        hint="use an image that has a compiler (`server.image`), or set VLLM_USE_FLASHINFER_SAMPLER to 0 in "
        "`server.environment`, or --enforce-eager in `server.extra_args`",
    ),
    KnownCause(
        code="compile-cache",
        title="a cache of compiled code is damaged",
        patterns=(
            r"failed to get the hash of the compiled graph",
            r"corrupted compilation artifact",
            r"EOFError: Ran out of input",
            r"pickle data was truncated",
            r"FileNotFoundError: .*(?:torch_compile_cache|torchinductor|triton)",
        ),
        hint="servers of one job have caches of their own, so this one came from outside: remove the folder that "
        "VLLM_CACHE_ROOT or TRITON_CACHE_DIR names in `server.environment`",
    ),
    KnownCause(
        code="numa",
        title="vLLM on CPUs cannot bind its threads",
        patterns=(r"Not enough allowed NUMA nodes to bind threads",),
        hint="set VLLM_CPU_OMP_THREADS_BIND to nobind in `server.environment`",
    ),
    KnownCause(
        code="illegal-instruction",
        title="the CPU does not know an instruction of this build",
        patterns=(r"\bIllegal instruction\b", r"\bSIGILL\b"),
        hint="the node's CPU is older than the build expects: ask for other nodes, or use another image",
        exits=(-4,),
    ),
    KnownCause(
        code="node-failed",
        title="the node went down",
        patterns=(r"Node failure on (?P<node>\S+)", r"STEP \S+ ON (?P<node>\S+) CANCELLED .*DUE TO NODE FAILURE"),
        hint="{node}: `sinfo -R` tells why; run the shard again, Slurm gives other nodes",
    ),
)
