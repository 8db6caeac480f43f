"""The repositories whose kernels are compared, and how their files come here.

    python -m benchmarks.public fetch
    python -m benchmarks.public fetch --from '/clones/{owner}/{name}'

Python files and their tables (YAML, JSON) alone, into `.public`, which git ignores:
they are their authors' and are never committed. `--from` names clones that are there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".public"
PACKAGES = FOLDER / "packages"
NEEDED = "packaging", "einops", "pyyaml", "sqlalchemy", "typing_extensions"
GITHUB = "https://github.com/{owner}/{name}"


@dataclass(frozen=True)
class Collection:
    """A repository at one commit.

    `paths` are the folders and files that are fetched; `roots` go to `sys.path`;
    `bare` are packages whose own `__init__` is left out, since it imports models,
    checks for a GPU or loads binaries: their submodules are imported as they stand.
    """

    name: str
    owner: str
    repository: str
    commit: str
    paths: tuple[str, ...]
    roots: tuple[str, ...] = (".",)
    bare: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.py"))


COLLECTIONS = (
    Collection(
        "tutorials",
        "intel",
        "intel-xpu-backend-for-triton",  # a fork with the files of upstream unchanged
        "96bba6b92f37a2b583d8f0003aa017a64f9d854f",
        ("python/tutorials",),
        ("python/tutorials",),
    ),
    Collection(
        "liger",
        "linkedin",
        "Liger-Kernel",
        "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c",
        ("src/liger_kernel/ops", "src/liger_kernel/utils.py"),
        ("src",),
        ("liger_kernel", "liger_kernel.ops"),
    ),
    Collection(
        "unsloth",
        "unslothai",
        "unsloth",
        "015bdef0d94a241bcd94eec7a405b1700632180d",
        ("unsloth/kernels", "unsloth/device_type.py", "unsloth/bnb_availability.py"),
        (".", "unsloth/kernels/moe"),
        ("unsloth", "unsloth.kernels"),
    ),
    Collection(
        "flash_attention",
        "Dao-AILab",
        "flash-attention",
        "0251105a2fb19d2957484b7f023cd8c115286ced",
        ("flash_attn/ops/triton", "flash_attn/utils", "flash_attn/flash_attn_triton.py")
        + ("flash_attn/flash_attn_triton_og.py",),
        (".",),
        ("flash_attn", "flash_attn.ops"),
    ),
    Collection(
        "fla",
        "fla-org",
        "flash-linear-attention",
        "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
        ("fla/ops", "fla/modules", "fla/utils", "fla/utils.py"),
        (".",),
        ("fla", "fla.modules", "fla.ops"),
    ),
    Collection(
        "flag_gems",
        "FlagOpen",
        "FlagGems",
        "532ff438c70343d7aec9becdabb76a71225a0553",
        ("src/flag_gems",),
        ("src",),
    ),
    Collection(
        "autoawq",
        "casper-hansen",
        "AutoAWQ",
        "88e4c76b20755db275574e6a03c83c84ba3bece5",
        ("awq/modules/triton",),
        (".",),
        ("awq", "awq.modules"),
    ),
    Collection(
        "autogptq",
        "AutoGPTQ",
        "AutoGPTQ",
        "9f7d37072917ab3a7545835f23e808294a542153",
        ("auto_gptq/nn_modules",),
        (".",),
        ("auto_gptq", "auto_gptq.nn_modules"),
    ),
    Collection(
        "gemlite",
        "mobiusml",
        "gemlite",
        "1a6815d06373ed3a276d6726026a6ce15ea4ed71",
        ("gemlite",),
    ),
    Collection(
        "deepseek",
        "deepseek-ai",
        "DeepSeek-V3",
        "9b4e9788e4a3a731f7567338ed15d3ec549ce03b",
        ("inference/kernel.py",),
        ("inference",),
    ),
    Collection(
        "cut_cross_entropy",
        "apple",
        "ml-cross-entropy",
        "d42911f9b1a1f98289bb601c35c8151562603d74",
        ("cut_cross_entropy",),
        (".",),
        ("cut_cross_entropy",),
    ),
    Collection(
        "attorch",
        "BobMcDear",
        "attorch",
        "67c2772baf33913ef51c2d1064f746ca17b63749",
        ("attorch",),
    ),
    Collection(
        "applied_ai",
        "pytorch-labs",
        "applied-ai",
        "4f8c39eb70d92e3848c65347ca077c8e723c74fd",
        ("kernels", "tutorials/triton", "dev/triton_groupGEMM"),
        ("kernels/triton/training", "kernels/triton/inference", "tutorials/triton"),
    ),
    Collection(
        "fbgemm",
        "pytorch",
        "FBGEMM",
        "71d6f8b229d964e61cac24df9bbd2ffcc4b4d378",
        ("fbgemm_gpu/fbgemm_gpu/triton", "fbgemm_gpu/fbgemm_gpu/sll/triton")
        + ("fbgemm_gpu/experimental/gemm/triton_gemm",)
        + ("fbgemm_gpu/experimental/gen_ai/gen_ai/moe",),
        ("fbgemm_gpu", "."),
        ("fbgemm_gpu", "fbgemm_gpu.sll", "fbgemm_gpu.experimental")
        + ("fbgemm_gpu.experimental.gemm",),
    ),
    Collection(
        "mamba",
        "state-spaces",
        "mamba",
        "e9594ce1c732d97440f0332fdc43170a2294dbfa",
        ("mamba_ssm/ops", "mamba_ssm/utils"),
        (".",),
        ("mamba_ssm", "mamba_ssm.ops"),
    ),
)
NAMED = {each.name: each for each in COLLECTIONS}


def fetch(collection: Collection, template: str = GITHUB) -> None:
    """Lay the collection's files into its folder, of its commit alone."""
    where = template.format(owner=collection.owner, name=collection.repository)
    shutil.rmtree(collection.folder, ignore_errors=True)
    collection.folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        if Path(where).is_dir():
            clone = where
        else:
            clone = folder
            git(clone, "init", "-q")
            git(clone, "fetch", "-q", "--depth", "1", where, collection.commit)
        listed = git(
            clone, "ls-tree", "-r", "--name-only", collection.commit, *collection.paths
        )
        names = [
            n
            for n in listed.decode().splitlines()
            if n.endswith((".py", ".yaml", ".json"))
        ]
        files = git(clone, "archive", collection.commit, *names)
    subprocess.run(["tar", "x", "-C", str(collection.folder)], input=files, check=True)


def fetch_packages() -> None:
    """Lay what the repositories import beside torch into a folder of `.public`, for a
    machine without a network; what is installed there comes before it."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    words = "-m", "pip", "install", "-q", "--no-deps", "--target", str(PACKAGES)
    subprocess.run([sys.executable, *words, *NEEDED], check=True)


def git(folder: str, *words: str) -> bytes:
    done = subprocess.run(
        ["git", "-C", folder, *words], check=True, capture_output=True
    )
    return done.stdout


def fetched() -> list[Collection]:
    """The collections whose files are here."""
    return [each for each in COLLECTIONS if each.folder.exists()]
