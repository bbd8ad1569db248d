"""Rules of the profile catalog that cross fields, and which cluster a user means."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from returns.result import Success

from core.config.flags import SRUN
from core.config.located import Located
from core.config.place import Place
from core.config.profile import ContainerMount, Image, Profile, ProfileCatalog
from core.config.rules import repeated_partition
from core.config.server_rules import argument_problems, version_problems
from core.outcome import Outcome, refuse
from core.problem import Malformed, MissingField, NotUnique, Problem, UnknownName, WrongCombination
from core.suggest import nearest

_UNFIT_FOR_A_MOUNT = re.compile(r"[\s:,\\]")


def catalog_problems(catalog: ProfileCatalog, place: Place) -> Iterator[Problem]:
    """Everything that the rules object to."""
    yield from _default_exists(catalog, place)
    yield from _unique_patterns(catalog, place)
    for cluster in catalog.clusters:
        yield from _profile(cluster.value, place.into(f"clusters.{cluster.name}"))


def _default_exists(catalog: ProfileCatalog, place: Place) -> Iterator[Problem]:
    known = tuple(cluster.name for cluster in catalog.clusters)
    wanted = catalog.default_cluster
    if wanted is not None and wanted not in known and place.sound("default_cluster") and known:
        yield UnknownName(
            at=place.at("default_cluster"),
            what="cluster",
            value=wanted,
            known=known,
            suggestion=nearest(wanted, known),
        )


def _unique_patterns(catalog: ProfileCatalog, place: Place) -> Iterator[Problem]:
    """Over all clusters, and without regard to case, as host names are compared."""
    first: dict[str, Place] = {}
    for cluster in catalog.clusters:
        inside = place.into(f"clusters.{cluster.name}")
        for index, pattern in enumerate(cluster.value.host_patterns):
            spot = inside.item("host_patterns", index)
            earlier = first.setdefault(pattern.casefold(), spot)
            if earlier != spot:
                yield NotUnique(at=spot.at(), what="host pattern", value=pattern, first_path=earlier.path)


def _profile(profile: Profile, place: Place) -> Iterator[Problem]:
    yield from _mounts(profile.container_mounts, place)
    yield from _ports(profile, place)
    yield from argument_problems(profile.srun_extra_args, place, "srun_extra_args", SRUN)
    yield from _scheduler(profile, place)
    for image in profile.images:
        if place.sound(f"images.{image.name}"):
            yield from _image(image.value, place.into(f"images.{image.name}"))


def _mounts(mounts: tuple[ContainerMount, ...], place: Place) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, mount in enumerate(mounts):
        spot = place.item("container_mounts", index)
        for name, path in (("source", mount.source), ("target", mount.target)):
            if spot.sound(name) and _UNFIT_FOR_A_MOUNT.search(path):
                expected = "a path without blanks, ':', ',' and '\\', which separate mounts on a command line"
                yield Malformed(at=spot.at(name), found=repr(path[:60]), expected=expected)
        if spot.sound("target") and first.setdefault(mount.target, index) != index:
            first_path = place.item("container_mounts", first[mount.target]).path
            yield NotUnique(at=spot.at("target"), what="mount target", value=mount.target, first_path=first_path)


def _ports(profile: Profile, place: Place) -> Iterator[Problem]:
    if profile.ports is not None and place.sound("ports"):
        low, high = profile.ports.range
        if low >= high:
            found = f"the range ends at {high}, which is not above its beginning {low}"
            yield WrongCombination(at=place.at("ports.range"), found=found, expected="write [low, high]")


def _scheduler(profile: Profile, place: Place) -> Iterator[Problem]:
    scheduler = place.into("scheduler")
    if scheduler.sound("partition"):
        yield from repeated_partition(profile.scheduler.partition, scheduler.into("partition"))
    if scheduler.sound("bin_path") and ":" in (profile.scheduler.bin_path or ""):
        found = repr((profile.scheduler.bin_path or "")[:60])
        yield Malformed(at=scheduler.at("bin_path"), found=found, expected="one folder, without ':'")
    visible = profile.gpu_request_mode == "visible" and place.sound("gpu_request_mode")
    if visible and profile.scheduler.mem_per_gpu is not None and scheduler.sound("mem_per_gpu"):
        found = "mem_per_gpu is given, and gpu_request_mode is visible, which asks for whole nodes and no GPUs"
        expected = "leave mem_per_gpu out, or use gpu_request_mode: gres"
        yield WrongCombination(at=scheduler.at("mem_per_gpu"), found=found, expected=expected)


def _image(image: Image, place: Place) -> Iterator[Problem]:
    if (image.path is None) == (image.uri is None):
        found = (
            "both path and uri of the image are given" if image.path else "neither path nor uri of the image is given"
        )
        yield WrongCombination(at=place.at(), found=found, expected="give one of path and uri")
    if image.vllm_version is not None:
        yield from version_problems(image.vllm_version, place, "vllm_version")


def choose_cluster(catalog: Located[ProfileCatalog], wanted: str | None, hostname: str) -> Outcome[tuple[str, Profile]]:
    """By name; else by the patterns that `hostname` or its first part matches; else the default, or the only one.

    Errors: `UnknownName` for a name that is not there, `WrongCombination` when patterns of several clusters match,
    `MissingField` when nothing decides.
    """
    clusters = {cluster.name: cluster.value for cluster in catalog.value.clusters}
    if wanted is not None and wanted not in clusters:
        known = tuple(clusters)
        suggestion = nearest(wanted, known)
        return refuse(
            UnknownName(at=catalog.at("clusters"), what="cluster", value=wanted, known=known, suggestion=suggestion)
        )
    matching = [name for name, profile in clusters.items() if _matches(profile, hostname)]
    if wanted is None and len(matching) > 1:
        found = f"the host {hostname!r} matches the patterns of {' and '.join(matching)}"
        expected = "name the cluster that you mean, or make the host_patterns disjoint"
        return refuse(WrongCombination(at=catalog.at("clusters"), found=found, expected=expected))
    only = next(iter(clusters)) if len(clusters) == 1 else None
    chosen = wanted or next(iter(matching), None) or catalog.value.default_cluster or only
    if chosen is None:
        return refuse(MissingField(at=catalog.at(""), field="default_cluster"))
    return Success((chosen, clusters[chosen]))


def _matches(profile: Profile, hostname: str) -> bool:
    names = {hostname.casefold(), hostname.casefold().partition(".")[0]} - {""}
    return any(fnmatchcase(name, pattern.casefold()) for name in names for pattern in profile.host_patterns)
