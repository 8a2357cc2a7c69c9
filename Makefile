# endcap: `make demo` shows it working, `make test` tests it. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build/dev
# What becomes a wheel, in an environment of its own for each Python. PYTHON may name a version of pyenv's
# that is not chosen.
WHEEL := build/wheel/$(notdir $(PYTHON))
WHEEL_PYTHON = $(or $(shell python3 scripts/find_python.py '$(PYTHON)' 2>/dev/null),$(PYTHON))
SCENES := build/scenes
# Benchmarks have their own environment: the peers want NumPy 2, the server must not have it.
BENCH := build/bench-venv
BENCH_BIN := $(BENCH)/bin
JOBS ?= $(shell nproc)
# Python test files at once; each may run a server. One more than cores: a quarter of their time they wait.
TEST_JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 4)))
# OFF leaves out the tests that are marked slow; pyproject.toml says which these are.
SLOW ?= ON
# A file's tests stay together: they share servers. Files are taken in order, where those with the longest
# tests come early; xdist by itself begins with those that have many.
PYTEST = $(BIN)/python -m pytest --numprocesses $(TEST_JOBS) --dist loadfile --no-loadscope-reorder \
  --max-worker-restart 0 $(if $(filter OFF,$(SLOW)),-m "not slow")
# ON makes compiler warnings errors, as continuous integration does.
WERROR ?= OFF
# Debug information as far as backtraces and profiles need it: all of it takes a fifth longer.
DEV_FLAGS ?= -O2 -g1 -DNDEBUG
# ON compiles a stage's files together, which takes half the time; OFF each alone, as releases do.
UNITY ?= ON
# GPU code for development is compiled by the driver, for the GPU that it finds.
CUDA_ARCHITECTURES ?= 75-virtual
# Whether the wheel has GPU code: ON, with nvcc from Python packages where the system has none, or OFF.
CUDA ?= ON
# The same for the environment of the benchmarks: GPU code takes minutes and is of no use without a GPU.
BENCH_CUDA ?= $(if $(shell command -v nvidia-smi),ON,OFF)

# What the compiled parts are made from; the Python modules are used in place.
SOURCES := $(shell find csrc pyext/bindings backends cmake tests/cpp tests/cuda_emulation \
             model_repository -type f -not -name '*.pyc' 2>/dev/null) \
           CMakeLists.txt pyproject.toml

# CMake is configured once: `make demo` builds a part of the tree, `make build` the rest. pip does it while
# it installs the package in editable form, with the files that need no compiler.
CONFIGURE = $(BIN)/pip install --quiet --no-deps --no-build-isolation --editable . \
  --config-settings=build-dir=$(BUILD) \
  --config-settings=build.targets=endcap_files \
  --config-settings=install.components=files \
  --config-settings=cmake.build-type=RelWithDebInfo \
  --config-settings='cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO=$(DEV_FLAGS)' \
  --config-settings=cmake.define.CMAKE_UNITY_BUILD=$(UNITY) \
  --config-settings=cmake.define.ENDCAP_BUILD_TESTS=ON \
  --config-settings=cmake.define.ENDCAP_WARNINGS_AS_ERRORS=$(WERROR) \
  --config-settings='cmake.define.ENDCAP_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)'
# Of ninja: steps that are done, steps in all, minutes and seconds since the start.
COMPILE = NINJA_STATUS="[%f of %t, %w$(EXPECTED)] " PATH="$(abspath $(BIN)):$$PATH" \
  cmake --build $(BUILD) --parallel $(JOBS)
INSTALL = PATH="$(abspath $(BIN)):$$PATH" cmake --install $(BUILD) --prefix \
  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" --component
# Processor seconds that compiling the demo's part takes, for the time that is announced.
DEMO_SECONDS := $(if $(filter ON,$(UNITY)),250,400)
demo-compiled: EXPECTED = $(shell printf ' of about %02d:%02d' $$(($(DEMO_SECONDS) / $(JOBS) / 60)) $$(($(DEMO_SECONDS) / $(JOBS) % 60)))

# Of each fuzz target, for `make fuzz`.
SECONDS ?= 60

.PHONY: help build demo test test-cpp test-python test-triton test-arm64 test-fuzz test-wheel test-peers evaluate bench \
        bench-server bench-pipelines bench-dali bench-gpu lint sanitize sanitize-server races fuzz \
        fuzz-coverage soak format docs wheel wheels wheel-arm64 cross-wheel sdist gpu-machine clean \
        demo-compiled FORCE

help:
	@echo "make demo         build, start a Triton server, detect in the sample pictures"
	@echo "make test         build and run every test: C++, Python, real server; SLOW=OFF without the slow ones"
	@echo "make build        build; afterwards .venv/bin/endcap works. UNITY=OFF compiles each file alone"
	@echo "make test-cpp     the C++ tests only (test-python, test-triton likewise)"
	@echo "make test-arm64   the C++ tests for arm64, cross-compiled, under QEMU; on Debian 12"
	@echo "make evaluate     the sample detector's accuracy through the server and by OpenCV and NumPy"
	@echo "make test-peers   results equal those of OpenCV, Pillow, torchvision, ultralytics"
	@echo "make bench        side by side with the peers; BENCH_OPTIONS='--quick' for about a minute"
	@echo "make bench-server the server's part alone, under NVIDIA's perf_analyzer"
	@echo "make bench-pipelines  the pipelines of docs/pipelines.md, and its tables"
	@echo "make bench-dali   the pipelines of docs/dali.md, and what differs between DALI and endcap"
	@echo "make lint         formatters, ruff, mypy, layers of imports, clang-tidy, links of the documentation, pip-audit"
	@echo "make lint-fast    the same without clang-tidy and pip-audit"
	@echo "make sanitize     the C++ tests under AddressSanitizer and UBSan"
	@echo "make sanitize-server  the tests on a real server, with backends under AddressSanitizer and UBSan"
	@echo "make soak         200,000 requests to a real server while parts of it are killed; REQUESTS=20000"
	@echo "                  then 100,000 frames of sequences that are tracked; FRAMES=20000"
	@echo "                  then a slow program at a camera for MINUTES=10"
	@echo "make races        the C++ tests under ThreadSanitizer, which sees the threads of an emulated GPU"
	@echo "make fuzz         the fuzz targets, SECONDS=60 each; make fuzz-coverage: what their corpora reach"
	@echo "make format       let the formatters rewrite the files"
	@echo "make docs         the documentation in build/docs"
	@echo "make wheel        a checked wheel in dist/ for this Python on any Linux; PYTHON=python3.12 for another"
	@echo "make wheels       one for each Python from 3.10 on that is found; PYTHONS='python3.11 python3.12' for these"
	@echo "make wheel-arm64  a wheel for arm64 in dist/arm64, cross-compiled without GPU code; on Debian 12"
	@echo "make sdist        the source archive in dist/"
	@echo "make bench-gpu    the GPU code beside torchvision, DALI and CV-CUDA; on a machine with a GPU"
	@echo "make gpu-machine  an archive with the wheel, the GPU tests and bench-gpu for a machine without network"
	@echo "make test-wheel   the wheel in an empty environment, beside NumPy 2 and OpenCV: the demo, the tests;"
	@echo "                  NEIGHBOURS=all also beside ultralytics and supervision"
	@echo "make clean        remove what was built"

build: $(VENV)/.built

demo: $(VENV)/.demo
	$(BIN)/endcap demo --output demo-output

test: test-cpp test-fuzz test-python test-triton

test-cpp: build
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

# The tests of GPU code run on the emulated GPU.
test-python: build $(VENV)/.test
	$(PYTEST) tests/python tests/fuzz tests/dali tests/wheel
	ENDCAP_CUDA_LIBRARY=$(abspath $(BUILD))/tests/cuda_emulation/libendcap_cuda_emulated.so \
	  $(PYTEST) tests/gpu

# C++ tests, GPU code on the emulated GPU among them. sanitize: of memory and of undefined behaviour, by
# AddressSanitizer and UBSan; races: of threads, a GPU's among them, and streams, by ThreadSanitizer.
sanitize races: export PATH := $(abspath $(BIN)):$(PATH)
sanitize races: build
	cmake --preset $@
	cmake --build --preset $@
	ctest --preset $@ --parallel $(JOBS)

# C++ tests of arm64 under QEMU: whether results are right, not how fast. The preset names those left out.
test-arm64: export PATH := $(abspath $(BIN)):$(PATH)
test-arm64: $(VENV)/.deps
	scripts/arm64_sysroot.sh build/arm64-sysroot
	cmake --preset arm64 -DENDCAP_WARNINGS_AS_ERRORS=$(WERROR)
	cmake --build --preset arm64 --parallel $(JOBS)
	ctest --preset arm64 --parallel $(JOBS)

# The committed corpora of the fuzz targets under AddressSanitizer and UBSan.
test-fuzz fuzz fuzz-coverage: export PATH := $(abspath $(BIN)):$(PATH)
test-fuzz: $(VENV)/.deps
	cmake --preset replay -DENDCAP_WARNINGS_AS_ERRORS=$(WERROR)
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) cmake --build --preset replay
	ctest --preset replay --parallel $(JOBS)

# A new crash is kept in build/fuzz/crashes, a new input in build/fuzz/corpus; `scripts/fuzz.py --minimize`
# makes the committed corpora anew of both.
fuzz: $(VENV)/.test
	scripts/system_packages.sh fuzz
	cmake --preset fuzz
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) cmake --build --preset fuzz
	$(BIN)/python scripts/fuzz.py --seconds $(SECONDS)
	ENDCAP_FUZZ_EXAMPLES=$$((20 * $(SECONDS))) $(BIN)/python -m pytest tests/fuzz

fuzz-coverage: $(VENV)/.deps
	scripts/system_packages.sh fuzz
	cmake --preset fuzz-coverage
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) cmake --build --preset fuzz-coverage
	$(BIN)/python scripts/fuzz_coverage.py csrc/decode --min-lines 95

# The server preloads the sanitizers' runtime; a report is a file, and fails the run. pytest reads what
# TRITON_TESTS says: files, or options of its own. Left out are tests of times, memory and limits of a
# process, which the runtime changes. Two at once: the tests' servers and stubs need 100 MB each.
SANITIZED := build/sanitize-server
TRITON_TESTS ?= tests/triton
NOT_SANITIZED := test_server_endings.py::test_a_limit_that_is_too_low_is_named \
  test_bls.py::test_memory_does_not_grow test_deploy.py::test_the_gpu_image_runs_this_command \
  test_overload.py::test_the_client_waits_as_long_as_the_server_asks \
  test_shipped_repository.py::test_demo_prints_detections_and_writes_pictures
sanitize-server: TEST_JOBS := 2
sanitize-server: export PATH := $(abspath $(BIN)):$(PATH)
sanitize-server: build $(VENV)/.test
	cmake --preset $@
	cmake --build --preset $@
	scripts/sanitized.sh $(SANITIZED) $(PYTEST) $(TRITON_TESTS) \
	  $(addprefix --deselect tests/triton/,$(NOT_SANITIZED))

REQUESTS ?= 200000
FRAMES ?= 100000
IMAGES ?= 10000
MINUTES ?= 10
soak: build $(VENV)/.test
	$(BIN)/python tests/triton/soak.py --requests $(REQUESTS) --output build/soak.json
	$(BIN)/python tests/triton/track_soak.py --frames $(FRAMES) --output build/track_soak.json
	$(BIN)/python tests/python/batch/cluster_soak.py --images $(IMAGES) --output build/cluster_soak.json
	$(BIN)/python tests/python/video/rtsp_soak.py --minutes $(MINUTES) --output build/rtsp_soak.json

test-triton: build $(VENV)/.test
	$(PYTEST) tests/triton

# Scenes that no training has seen, drawn once; see training/README.md.
evaluate: build $(SCENES)/annotations.json
	$(BIN)/endcap evaluate $(SCENES) $(SCENES)/annotations.json --repository model_repository \
	  --reference model_repository/detector/1/model.onnx --max-difference 0.002 --min-map50 0.90

$(SCENES)/annotations.json: $(wildcard training/*.py) | $(VENV)/.test
	$(BIN)/python -m training.make_dataset --count 400 --output $(SCENES)

# What ultralytics exports is served by the environment that has the server.
test-peers: build $(BENCH)/.endcap $(BENCH)/.peers
	scripts/system_packages.sh bench
	ENDCAP_SERVER_PYTHON=$(abspath $(BIN))/python YOLO_AUTOINSTALL=false \
	  $(BENCH_BIN)/python -m pytest tests/peers

# A peer that cannot be installed has a row with the reason.
bench: $(BENCH)/.endcap build
	-$(MAKE) --no-print-directory $(BENCH)/.peers
	-scripts/system_packages.sh bench
	$(BENCH_BIN)/python -m benchmarks run --server-python $(BIN)/python $(BENCH_OPTIONS)

bench-server: $(BENCH)/.endcap build
	-$(MAKE) --no-print-directory $(BENCH)/.peers
	scripts/system_packages.sh bench
	$(BENCH_BIN)/python -m benchmarks server --server-python $(BIN)/python $(BENCH_OPTIONS)

# With --quick the page stays as the committed results have it.
bench-pipelines: $(BENCH)/.endcap build
	$(BENCH_BIN)/python -m benchmarks pipelines --server-python $(BIN)/python $(BENCH_OPTIONS)
	$(BENCH_BIN)/python scripts/pipelines_page.py

bench-dali: $(BENCH)/.endcap $(BENCH)/.dali
	$(BENCH_BIN)/python -m benchmarks dali $(BENCH_OPTIONS)
	$(BENCH_BIN)/python scripts/dali_page.py

# A peer that cannot be used has no row.
bench-gpu: $(BENCH)/.endcap
	-$(MAKE) --no-print-directory $(BENCH)/.peers
	$(BENCH_BIN)/python -m benchmarks.gpu $(BENCH_OPTIONS)

lint: lint-fast $(BUILD)/.tidied
	$(BIN)/python scripts/audit.py $(VENV) $(wildcard $(BENCH)) $(wildcard build/wheel/*/venv)

# What takes seconds: continuous integration runs it before the tests.
lint-fast: build docs $(VENV)/.test $(VENV)/.lint
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.cc' '*.h' '*.cu' '*.cuh')
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/generate_sync_client.py --check
	$(BIN)/mypy
	cd pyext && $(abspath $(BIN))/lint-imports ../pyproject.toml --no-cache

format: $(VENV)/.lint
	$(BIN)/clang-format -i $$(git ls-files '*.cc' '*.h' '*.cu' '*.cuh')
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: build $(VENV)/.lint
	$(BIN)/sphinx-build -W --keep-going -q -E -b html docs build/docs

wheel: $(WHEEL)/.tools $(if $(filter ON,$(CUDA)),$(WHEEL)/.nvcc)
	$(WHEEL)/venv/bin/python scripts/build_wheel.py $(WHEEL) --cuda $(CUDA)

# Cross-compiled for the Python of Debian 12, then imported under QEMU. In a folder of its own: what takes
# the wheel in dist/ wants one for this machine.
wheel-arm64:
	scripts/arm64_sysroot.sh build/arm64-sysroot
	$(MAKE) --no-print-directory cross-wheel PYTHON=python3.11

cross-wheel: $(WHEEL)/.tools
	$(WHEEL)/venv/bin/python scripts/build_wheel.py build/arm64-wheel --cuda OFF \
	  --arm64-sysroot build/arm64-sysroot --dist dist/arm64
	$(WHEEL)/venv/bin/python scripts/try_arm64_wheel.py dist/arm64/*.whl build/arm64-sysroot

# One after the other: a build takes all cores by itself. A failure ends the rest.
PYTHONS ?= $(shell python3 scripts/find_python.py --all)
wheels:
	@test -n '$(strip $(PYTHONS))' || { echo "endcap: no Python from 3.10 on was found; give some, as in make wheels" \
	  "PYTHONS='python3.11 /opt/python/bin/python3.12'" >&2; exit 2; }
	@for python in $(PYTHONS); do \
	  echo "endcap: a wheel for $$python, of: $(strip $(PYTHONS))"; \
	  $(MAKE) --no-print-directory wheel PYTHON="$$python" || exit; \
	done
	@ls -l dist/*.whl

sdist: $(WHEEL)/.tools
	$(WHEEL)/venv/bin/python scripts/build_wheel.py $(WHEEL) --source-only

gpu-machine: wheel
	$(WHEEL)/venv/bin/python scripts/gpu_machine.py pack dist/endcap-gpu.tar

# NEIGHBOURS=all: ultralytics and supervision beside it, too, with some gigabytes of torch.
NEIGHBOURS ?= few
test-wheel: wheel
	$(WHEEL)/venv/bin/python scripts/test_wheel.py --neighbours $(if $(filter 1,$(NEIGHBOURS)),all,$(NEIGHBOURS))

clean:
	rm -rf build dist demo-output $(VENV)

$(VENV)/.deps: pyproject.toml scripts/system_packages.sh
	@echo "endcap: preparing $(VENV), less than a minute"
	PYTHON=$(PYTHON) scripts/system_packages.sh build
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --group build
	touch $@

# Changes when a setting does.
$(BUILD)/.settings: export SETTINGS = $(CONFIGURE)
$(BUILD)/.settings: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$SETTINGS" | cmp -s - $@ || printf '%s\n' "$$SETTINGS" > $@

# The server's Python models are tested with its own NumPy, which has no wheels for later Pythons.
$(BUILD)/.configured: $(VENV)/.deps $(BUILD)/.settings
	@$(BIN)/python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' || { echo \
	  "endcap: the Python of $(VENV) cannot be used: the server that the tests run needs NumPy below 2, which has wheels for Python" \
	  "3.10 to 3.12. Remove $(VENV), and give one, as in make $(or $(firstword $(MAKECMDGOALS)),build) PYTHON=python3.12;" \
	  "another Python is tested by make test-wheel PYTHON=python3.13" >&2; exit 2; }
	PATH="$(abspath $(BIN)):$$PATH" $(CONFIGURE)
	touch $@

# Beside the compiler, as it mostly waits for downloads. The package is there: of it pip only reads what it needs.
$(VENV)/.server: $(BUILD)/.configured
	$(BIN)/pip install --quiet 'endcap[server,video,web]' --group test-server
	touch $@

$(VENV)/.demo: $(BUILD)/.configured $(SOURCES)
	@echo "endcap: compiling what the demo runs; the server is installed meanwhile"
	$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j2) demo-compiled $(VENV)/.server
	$(INSTALL) demo
	touch $@

demo-compiled:
	@$(COMPILE) --target endcap_demo

# With the server's and the tests' bounds, so that no package is downloaded twice.
$(VENV)/.extras: $(VENV)/.server
	$(BIN)/pip install --quiet 'endcap[evaluate,init,env]' --group test-server --group test-opencv
	touch $@

$(VENV)/.built: $(BUILD)/.configured $(VENV)/.extras $(SOURCES)
	@$(COMPILE)
	for component in files demo python; do $(INSTALL) $$component || exit; done
	touch $(VENV)/.demo $@

$(VENV)/.test: $(VENV)/.deps
	$(BIN)/pip install --quiet --group test --group test-dali-python
	$(BIN)/pip install --quiet --no-deps --group test-dali --group test-kserve
	PLAYWRIGHT=$(BIN)/playwright scripts/system_packages.sh test
	touch $@

$(VENV)/.lint: $(VENV)/.deps
	$(BIN)/pip install --quiet --group lint
	touch $@

$(BENCH)/.deps: pyproject.toml scripts/system_packages.sh
	PYTHON=$(PYTHON) scripts/system_packages.sh build
	test -x $(BENCH_BIN)/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH_BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --group bench
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-deps --group bench-images
	touch $@

# What pip would warn of is meant: parts of torch's and ultralytics' requirements are left out.
$(BENCH)/.peers: $(BENCH)/.deps $(BENCH)/.dali
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-deps --no-cache-dir --group peers
	touch $@

# DALI, and the headers that its operators are built with.
$(BENCH)/.dali: $(BENCH)/.deps
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --group peers-dali
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-deps --group test-dali
	touch $@

# What users get: a release build, installed, not in editable form.
$(BENCH)/.endcap: $(BENCH)/.deps $(SOURCES) $(shell find pyext/endcap -name '*.py')
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) PATH="$(abspath $(BENCH_BIN)):$$PATH" \
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-build-isolation . \
	  --config-settings=build-dir=build/bench-core --config-settings=cmake.define.ENDCAP_CUDA=$(BENCH_CUDA)
	touch $@

# Each file as it is compiled alone.
$(BUILD)/.tidied: $(VENV)/.built $(VENV)/.lint .clang-tidy
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DENDCAP_BUILD_PYTHON=OFF >/dev/null
	$(BIN)/python $(BIN)/run-clang-tidy.py -quiet -j $(JOBS) -clang-tidy-binary $(BIN)/clang-tidy \
	  -p build/tidy '^$(CURDIR)/(csrc|backends)/.*\.cc$$'
	touch $@

$(WHEEL)/.nvcc: $(WHEEL)/.tools
	(nvcc --version || /usr/local/cuda/bin/nvcc --version) 2>/dev/null | grep -q 'release 13' \
	  || $(WHEEL)/venv/bin/pip install --quiet --group cuda-build
	touch $@

$(WHEEL)/.tools: pyproject.toml scripts/system_packages.sh
	PYTHON=$(WHEEL_PYTHON) scripts/system_packages.sh build
	test -x $(WHEEL)/venv/bin/python || $(WHEEL_PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/pip install --quiet --upgrade 'pip>=25.1'
	$(WHEEL)/venv/bin/pip install --quiet --prefer-binary --group wheel
	touch $@
