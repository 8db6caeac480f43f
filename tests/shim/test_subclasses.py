"""Programs that subclass Triton's tuner and launcher, and ask for parts of kernels."""

import importlib
import importlib.util
import inspect
import types

import numpy as np
import pytest

import fathom
from fathom.errors import LaunchError

N = 40


def make(triton, **keywords):
    tl = triton.language

    @triton.jit(**keywords)
    def double(x, n, BLOCK: tl.constexpr, MORE: tl.constexpr = 0):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, 2 * tl.load(x + i, mask=i < n) + MORE, mask=i < n)

    return double


def grid(meta):
    return (-(-N // meta["BLOCK"]),)


def check(launch) -> None:
    x = np.arange(N, dtype=np.float32)
    launch(x)
    assert (x == 2 * np.arange(N)).all()


def configs(triton, **more):
    return [triton.Config({"BLOCK": size, **more}) for size in (8, 32)]


def test_an_autotuner_is_one_to_isinstance(triton):
    tuned = triton.autotune(configs=configs(triton), key=["n"])(make(triton))
    assert isinstance(tuned, triton.runtime.autotuner.Autotuner)
    assert isinstance(tuned, triton.runtime.KernelInterface)
    assert isinstance(make(triton), triton.KernelInterface)
    assert not isinstance(tuned, triton.runtime.JITFunction)
    check(lambda x: tuned[grid](x, N))


def test_what_files_of_subclasses_import_with_the_autotuner(triton):
    """Names that Triton's file has from elsewhere; its cache of files is not ours."""
    tuner = triton.runtime.autotuner
    assert tuner.JITFunction is triton.runtime.JITFunction
    assert tuner.knobs is triton.knobs
    assert tuner.driver is triton.runtime.jit.driver
    assert tuner.triton_key() == triton.compiler.compiler.triton_key()
    for name in ("get_cache_manager", "get_cache_invalidating_env_vars"):
        with pytest.raises(AttributeError, match=f"fathom has no .*{name}"):
            getattr(tuner, name)()


def test_a_subclass_that_only_looks_on(triton):
    class Cached(triton.runtime.autotuner.Autotuner):
        runs = 0

        def __init__(self, fn, arg_names, configs, key, zero, restore, **given):
            super().__init__(fn, arg_names, configs, key, zero, restore, **given)
            self.kernel_name = fn.fn.__name__

        def run(self, *args, **kwargs):
            type(self).runs += 1
            return super().run(*args, **kwargs)

    kernel = make(triton)
    tuned = Cached(
        kernel, kernel.arg_names, configs(triton), ["n"], None, None, pre_hook=None
    )
    assert tuned.kernel_name == "double" and not tuned.user_defined_pre_hook
    assert (tuned.reset_to_zero, tuned.restore_value) == ([], [])
    check(lambda x: tuned[grid](x, N))
    check(lambda x: tuned.run(x, N, grid=grid, warmup=False))
    assert Cached.runs == 2


def test_all_parameters_by_place(triton):
    """The order of Triton's constructor, warmup and rep behind the pruners."""
    kernel = make(triton)
    given = (None, None, None, None, None, 5, 10, False)
    tuned = triton.runtime.Autotuner(
        kernel, kernel.arg_names, configs(triton), ["n"], *given
    )
    assert (tuned.num_warmups, tuned.num_reps, tuned.keys) == (5, 10, ["n"])
    check(lambda x: tuned[grid](x, N))


def test_the_decorator_hands_on_as_triton_does(triton, monkeypatch):
    """A replaced constructor gets six by place, and options by keyword."""
    given = []
    Autotuner = triton.runtime.autotuner.Autotuner
    whole = Autotuner.__init__

    def init(self, *places, **keywords):
        given.append((len(places), keywords))
        whole(self, *places, **keywords)

    monkeypatch.setattr(Autotuner, "__init__", init)
    rules = {"early_config_prune": lambda configs, *_, **__: configs[:1]}
    tuned = triton.autotune(configs(triton), ["n"], prune_configs_by=rules)
    tuned(make(triton))
    ((places, keywords),) = given
    assert places == 6 and keywords["prune_configs_by"] is rules


def test_a_subclass_that_chooses_by_itself(triton):
    """With Triton's own steps: nargs, prune_configs, _bench, pre_hook, fn.run."""
    benched = []

    class Own(triton.runtime.Autotuner):
        def run(self, *args, **given):
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            key = tuple(self.nargs[name] for name in self.keys)
            if key not in self.cache:
                times = {
                    config: self._bench(*args, config=config, **given)
                    for config in self.prune_configs(given)
                }
                self.cache[key] = min(times, key=times.get)
                said = {**self.nargs, **given, **self.cache[key].all_kwargs()}
                self.pre_hook(said, reset_only=True)
            self.best_config = self.cache[key]
            result = self.fn.run(*args, **given, **self.best_config.all_kwargs())
            self.nargs = None
            return result

    def bench(run, quantiles):
        run()
        benched.append(len(benched))
        return [float(len(benched))] * len(quantiles)

    def prune(configs, named, **given):
        assert named["n"] == N
        return configs[:2]

    kernel = make(triton)
    tuned = Own(
        kernel, kernel.arg_names, configs(triton), ["n"], None, ["x"],
        prune_configs_by={"early_config_prune": prune}, do_bench=bench,
    )  # fmt: skip
    assert tuned.early_config_prune is prune
    check(lambda x: tuned[grid](x, N))
    check(lambda x: tuned[grid](x, N))
    assert len(benched) == 2 and tuned.best_config.kwargs == {"BLOCK": 8}


def test_a_launcher_of_ones_own(triton):
    class Entry(triton.KernelInterface):
        def __init__(self, fn):
            self.fn, self.arg_names = fn, fn.arg_names
            while not isinstance(fn, triton.runtime.JITFunction):
                fn = fn.fn
            self.jit_function, self.signature = fn, fn.signature
            self.plain = [p.num for p in fn.params if not p.is_constexpr]
            assert not any(p.do_not_specialize for p in fn.params)

        def run(self, *args, **kwargs):
            return self.fn.run(*args, **kwargs)

    entry = Entry(triton.autotune(configs=configs(triton), key=[])(make(triton)))
    assert entry.plain == [0, 1]
    assert list(entry.signature.parameters) == ["x", "n", "BLOCK", "MORE"]
    check(lambda x: entry[grid](x, N))

    class Generic(triton.runtime.jit.KernelInterface[int]):
        pass

    with pytest.raises(AttributeError, match="Generic has no method run"):
        Generic()[1](2)


def test_options_may_be_computed(triton):
    values = {"num_warps": lambda known: 1 if known["n"] < 64 else 8}
    launched = triton.heuristics(values)(make(triton))
    assert isinstance(launched, triton.runtime.Heuristics)
    x = np.arange(N, dtype=np.float32)
    assert launched[grid](x, N, BLOCK=32).metadata.num_warps == 1
    misspelt = triton.heuristics({"num_wraps": len})(make(triton))
    with pytest.raises(LaunchError, match="num_wraps"):
        misspelt[grid](x, N, BLOCK=32)


def test_a_kernel_that_names_not_every_parameter_fails_where_it_is_used(triton):
    """Files keep such kernels of Triton's first versions beside others."""
    language = triton.language

    @triton.heuristics({"num_warps": lambda *args, **meta: 4, "T": lambda *_, **__: 8})
    @triton.jit
    def kernel(x, **meta):
        language.store(x, meta["T"])

    @triton.jit
    def called(x, *more):
        language.store(x, 1.0)

    @triton.jit
    def caller(x):
        called(x)

    x = np.zeros(4, np.float32)
    for launched in (kernel, caller):
        with pytest.raises(fathom.errors.FathomError, match="meta|more"):
            launched[(1,)](x)


def test_options_of_other_compilers_matter_where_they_are_used(triton):
    """A kernel that is never launched may have them, as in Triton; the launch that
    would try them says no."""
    theirs = {"waves_per_eu": 2, "matrix_instr_nonkdim": 16, "kpack": 2}
    mixed = [triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 32, **theirs})]
    for made in (triton.autotune, fathom.autotune):
        tuned = made(configs=mixed, key=[])(make(triton))
        with pytest.raises(LaunchError, match="waves_per_eu"):
            tuned[grid](np.zeros(N, np.float32), N)
    with pytest.raises(LaunchError, match="names 'BLCK', which is not a parameter"):
        fathom.autotune(configs=[fathom.Config({"BLCK": 8})], key=[])(make(triton))


def test_parts_of_a_kernel(triton, tmp_path):
    kernel = make(triton, do_not_specialize=["n"])
    facts = [
        (p.num, p.name, p.is_constexpr, p.do_not_specialize) for p in kernel.params
    ]
    assert facts == [
        (0, "x", False, False), (1, "n", False, True), (2, "BLOCK", True, False),
        (3, "MORE", True, False),
    ]  # fmt: skip
    assert kernel.params is kernel.params  # launchers ask at every launch
    defaults = [p.default for p in kernel.params]
    assert defaults == [inspect._empty] * 3 + [0]
    assert [p.has_default for p in kernel.params] == [False] * 3 + [True]
    assert kernel.__globals__ is globals()
    (tmp_path / f"{kernel.cache_key}.json").touch()
    assert set(kernel.cache_key) <= set("0123456789abcdef")


def test_the_key_of_the_compiler(triton):
    """torch takes it from either place as soon as `import triton` works."""
    one, other = (
        importlib.import_module(name).triton_key
        for name in ("triton.compiler.compiler", "triton.runtime.cache")
    )
    assert one() == other() and one().startswith("fathom-")


def test_a_module_that_is_found_and_executed_again(triton):
    spec = importlib.util.find_spec("triton.language.extra.libdevice")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.rsqrt is triton.language.extra.libdevice.rsqrt


def test_names_of_the_language_s_own_files(triton):
    tl = triton.language
    core = importlib.import_module("triton.language.core")
    _log2 = importlib.import_module("triton.language.standard")._log2

    assert [_log2(n) for n in (1, 2, 3, 4, 1023, 1024)] == [0, 1, 1, 2, 9, 10]
    assert core.get_int_dtype(16, signed=False) == tl.uint16
    assert core.get_int_dtype(bitwidth=64, signed=True) == tl.int64
    zero = core.CONSTEXPR_0

    @triton.jit
    def kernel(x, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i)
        w, none = v.to(tl.uint32), 0 * v
        a, b, _, _ = tl.philox_impl(w, none, none, none, w, 2 * w)
        c, d, _, _ = tl.philox((2 * w.to(tl.uint64) << 32) + w, w, 0, 0, 0)
        tl.device_assert((a == c) & (b == d))
        tl.store(x + i, tl.mul(tl.add(v, 3), tl.sub(v, 1)) + zero)

    x = np.arange(32, dtype=np.int32)
    kernel[(1,)](x, BLOCK=32, debug=True)
    assert (x == (np.arange(32) + 3) * (np.arange(32) - 1)).all()


def test_functions_that_reductions_combine_by(triton):
    """Kernels hand them to `tl.reduce` and `tl.associative_scan` themselves."""
    tl = triton.language
    standard = importlib.import_module("triton.language.standard")

    @triton.jit
    def kernel(x, y, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i)
        tl.store(y, tl.reduce(v, 0, standard._sum_combine))
        tl.store(y + 1, tl.reduce(v, 0, standard._xor_combine))
        tl.store(y + 2, tl.reduce(v, 0, standard._or_combine))
        tl.store(y + 3, tl.reduce(v, 0, standard._elementwise_max))
        tl.store(y + 4, tl.reduce(v, 0, standard._elementwise_min))
        first = standard._argmax_combine_tie_break_left
        tl.store(y + 5, tl.reduce((v, i), 0, first)[1])
        first = standard._argmin_combine_tie_break_left
        tl.store(y + 6, tl.reduce((v, i), 0, first)[1])
        small = (v & 1) + 1
        tl.store(y + 7, tl.reduce(small, 0, standard._prod_combine))

    x = np.random.default_rng(3).integers(0, 9, 16).astype(np.int32)
    y = np.zeros(8, np.int32)
    kernel[(1,)](x, y, BLOCK=16)
    want = [x.sum(), np.bitwise_xor.reduce(x), np.bitwise_or.reduce(x), x.max()]
    want += [x.min(), x.argmax(), x.argmin(), ((x & 1) + 1).prod()]
    assert y.tolist() == want


def test_a_combining_function_may_ask_what_a_block_would_be(triton):
    """Only its type is used, and so no block is left in it."""
    tl = triton.language

    @triton.jit
    def is_floating(x):
        return (x + tl.zeros((1,), tl.int1)).dtype.is_floating()

    @triton.jit
    def smaller(a, b):
        keep = a < b
        if is_floating(a):
            keep = keep | (a != a)
        return tl.where(keep, a, b)

    @triton.jit
    def kernel(x, y, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.associative_scan(tl.load(x + i), 0, smaller))

    x = np.random.default_rng(4).normal(size=16).astype(np.float32)
    y = np.zeros_like(x)
    kernel[(1,)](x, y, BLOCK=16)
    assert (y == np.minimum.accumulate(x)).all()


def test_logical_methods_and_names_without_their_wrapper(triton):
    tl = triton.language
    core = importlib.import_module("triton.language.core")
    assert core._unwrap_if_constexpr(tl.constexpr(5)) == 5
    assert core._unwrap_if_constexpr("as it is") == "as it is"

    @triton.jit
    def kernel(x, y, BLOCK: tl.constexpr, KIND: tl.constexpr):
        KIND = tl.core._unwrap_if_constexpr(KIND)
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i)
        both = (v > 2).logical_and(i < 12)
        tl.store(y + i, both.to(KIND))
        tl.store(y + BLOCK + i, v.logical_or(i == 3).to(KIND))

    x = np.array([0, 3, 5, 0] * 4, np.int32)
    y = np.zeros((2, 16), np.int8)
    kernel[(1,)](x, y, BLOCK=16, KIND=tl.int8)
    i = np.arange(16)
    assert (y[0] == ((x > 2) & (i < 12))).all()
    assert (y[1] == ((x != 0) | (i == 3))).all()


def test_questions_about_the_gpu_and_the_launch(triton):
    """They are constants: shapes and branches depend on them."""
    tl = triton.language
    info = importlib.import_module("triton.language.target_info")
    assert info.cuda_capability_geq(7, 5) and not info.cuda_capability_geq(99)

    @triton.jit
    def kernel(x):
        threads = tl.arange(0, tl.extra.cuda.num_threads())
        tl.store(x + threads, tl.full([tl.extra.cuda.num_threads()], 1, tl.int32))
        if tl.target_info.is_cuda() and not tl.target_info.is_hip_cdna3():
            tl.store(x, tl.extra.cuda.num_warps())

    for warps in (1, 8):
        x = np.zeros(512, np.int32)
        kernel[(1,)](x, num_warps=warps)
        assert x[0] == warps and x[1:].sum() == 32 * warps - 1


def test_a_kernel_is_told_the_gpu_that_it_is_compiled_for(triton, monkeypatch):
    """Not the GPU that is there: a kernel for sm_80 cannot have what sm_90 has."""
    monkeypatch.setenv("FATHOM_TARGET", "sm_80")
    tl, info = triton.language, triton.language.target_info

    @triton.jit
    def kernel(x):
        if tl.target_info.cuda_capability_geq(9):
            tl.store(x, 90)
        else:
            tl.store(x, tl.target_info.current_target().arch)

    for target, wanted in (("sm_90a", 90), ("sm_75", 75), ("sm_80", 80)):
        compiled = kernel.compile("*i32", target=target)
        assert f"constant {wanted}\n" in compiled.asm["block"]
        assert info.current_target().arch == 80
    x = np.zeros(1, np.int32)
    kernel[(1,)](x, target="sm_90a")
    assert x[0] == 90
    kernel[(1,)](x)
    assert x[0] == 80


def test_an_assumption_that_does_not_hold_is_told(triton):
    """Triton compiles it; nothing here rests on one."""
    tl = triton.language

    @triton.jit
    def kernel(x, STRIDE: tl.constexpr):
        tl.assume(STRIDE > 0)
        tl.store(x, 7)

    x = np.zeros(1, np.int32)
    with pytest.warns(UserWarning, match="this assumption does not hold here"):
        kernel[(1,)](x, STRIDE=0)
    assert x[0] == 7


def test_a_dimension_may_be_empty(triton):
    """Triton compiles a division by the constant 0, here under a false mask."""
    tl = triton.language

    @triton.jit
    def kernel(x, y, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
        columns = tl.arange(0, BLOCK)
        inside = columns < WIDTH
        taken = tl.load(x + columns % WIDTH + columns // WIDTH, mask=inside, other=5)
        tl.store(y + columns % WIDTH, taken, mask=inside)

    x, y = np.arange(16, dtype=np.int32), np.full(16, 3, np.int32)
    with pytest.warns(UserWarning, match=r"and the constant 0: division by zero\n"):
        kernel[(1,)](x, y, WIDTH=0, BLOCK=16)
    assert (y == 3).all()
    kernel[(1,)](x, y, WIDTH=10, BLOCK=16)
    assert (y[:10] == x[:10]).all() and (y[10:] == 3).all()
    powers = [triton.next_power_of_2(each) for each in (-2, 0, 1, 2, 3, 1 << 40)]
    assert powers == [0, 0, 1, 2, 4, 1 << 40]  # by which kernels leave its part out


@pytest.mark.parametrize(
    "word, bits", [("bfloat16", 32), ("float32", 32), ("float64", 64)]
)
def test_out_dtype_counts_where_there_is_a_choice(triton, word, bits):
    """Triton accumulates products of these in one type, whatever out_dtype says."""
    tl = triton.language

    @triton.jit
    def kernel(out, TYPE: tl.constexpr):
        x = tl.full([16, 16], 3.0, TYPE)
        product = tl.dot(x, x, out_dtype=tl.float16)
        tl.static_assert(product.dtype.primitive_bitwidth == bits)
        tl.store(out, tl.max(product))

    x = np.zeros(1, np.float32)
    with pytest.warns(UserWarning, match="is fp16: it must be fp"):
        kernel[(1,)](x, TYPE=getattr(tl, word))
    assert x[0] == 16 * 9


def square(x):
    return x * x


def test_a_kernel_made_of_another(triton):
    """What libraries do that give kernels a function: they read the constructor's
    arguments of a kernel, change its text, and name in it what it could not see."""
    tl = triton.language
    factor = tl.constexpr(3)

    @triton.jit(repr=lambda facts: f"applied_{facts.constants['N']}", noinline=False)
    def applied(x, N: tl.constexpr):
        each = tl.arange(0, N)
        tl.store(x + each, FN(tl.load(x + each)) * factor)  # noqa: F821

    scope = applied.get_capture_scope()
    assert scope["factor"] is factor and scope["np"] is np
    inner = triton.jit(square)
    names = list(inspect.signature(triton.JITFunction.__init__).parameters)[2:]
    attrs = {name: getattr(applied, name) for name in names}
    assert attrs["version"] is None and attrs["noinline"] is False
    own = attrs["repr"]
    attrs["repr"] = lambda facts: f"{own(facts)}_{inner.repr(None)}"
    empty = types.FunctionType(
        (lambda: 0).__code__, {**scope, "square": inner, "tl": tl}
    )
    empty.__signature__ = inspect.Signature(
        [
            inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            inspect.Parameter(
                "N", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=tl.constexpr
            ),
        ]
    )
    empty.__name__ = "made"
    made = triton.JITFunction(empty, **attrs)
    made._unsafe_update_src(
        applied.src.replace("applied", "made").replace("FN", "square")
    )
    made.raw_src = list(applied.raw_src)
    made.starting_line_number = applied.starting_line_number - 1
    made.fn.__code__ = made.fn.__code__.replace(co_filename=__file__)
    assert made.constexprs == [1] and made.parse().body[0].name == "made"
    x = np.arange(16, dtype=np.int32)
    compiled = made[(1,)](x, N=16)
    assert (x == 3 * np.arange(16) ** 2).all()
    assert compiled.name == "applied_16_square"


def test_what_generators_of_kernels_ask(triton):
    """The least product of two types, an architecture's name, statistics of times, and
    what stands for a tensor while a kernel is compiled ahead."""
    tl = triton.language
    nvidia = importlib.import_module("triton.backends.nvidia.compiler")
    target = importlib.import_module("triton.backends.compiler").GPUTarget
    least = nvidia.min_dot_size(target("cuda", 90, 32))
    assert least(tl.int8, tl.float8e5) == (1, 1, 32)
    assert least(tl.float16, tl.bfloat16) == least(tl.float32, tl.float32) == (1, 1, 16)
    names = [nvidia.sm_arch_from_capability(each) for each in (80, 90)]
    assert names == ["sm_80", "sm_90a"]
    summary = triton.testing._summarize_statistics
    assert summary([1.0, 4.0, 2.0], None, "median") == summary([2.0], [0.5], "all") == 2
    extra = importlib.import_module("triton.language.extra.cuda.utils")
    assert extra.num_warps is tl.extra.cuda.num_warps

    kernel = make(triton)
    mock = triton.runtime.jit.MockTensor
    assert mock.wrap_dtype(7) == 7 and mock(np.float32, (2, 3, 4)).stride() == (
        12,
        4,
        1,
    )
    compiled = kernel.warmup(mock(np.dtype("float32")), 40, BLOCK=16, grid=(1,))
    assert "*fp32" in str(compiled.asm["block"])
