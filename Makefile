# endcap: `make demo` shows it working, `make test` tests it. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := build/dev
WHEEL := build/wheel/$(subst /,_,$(PYTHON))
# Benchmarks have their own environment: the peers need NumPy 2, the server must not have it.
BENCH := build/bench-venv
BENCH_BIN := $(BENCH)/bin
JOBS ?= $(shell nproc)
# Test files at a time, each of which may run a server: one more than cores, since they often wait.
TEST_JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n + 1 : 4)))
# The tests of a file share servers, so that they stay in one process.
PYTEST = $(BIN)/python -m pytest --numprocesses $(TEST_JOBS) --dist loadfile --no-loadscope-reorder \
  --max-worker-restart 0 --durations 40
# ON makes compiler warnings errors, as continuous integration does.
WERROR ?= OFF
# ON compiles a stage's files together, which takes half the time; OFF each alone, as releases do.
UNITY ?= ON
# GPU code in the wheel: ON, by nvcc of Python packages where the system has none, or OFF.
CUDA ?= ON
NVCC = $(shell (nvcc --version || /usr/local/cuda/bin/nvcc --version) 2>/dev/null | grep 'release 13')

# What the compiled parts are made from; the Python modules are used in place.
SOURCES := CMakeLists.txt pyproject.toml $(shell find csrc pyext/bindings backends cmake tests/cpp \
             tests/cuda_emulation model_repository -type f -not -name '*.pyc')

# pip configures CMake once, when it installs the package in editable form without what is compiled:
# `make demo` builds a part of the tree, `make build` the rest.
CONFIGURE = $(BIN)/pip install --quiet --no-deps --no-build-isolation --editable . \
  -Cbuild-dir=$(BUILD) -Cbuild.targets=endcap_files -Cinstall.components=files \
  -Ccmake.build-type=RelWithDebInfo -Ccmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO='-O2 -g1 -DNDEBUG' \
  -Ccmake.define.CMAKE_UNITY_BUILD=$(UNITY) -Ccmake.define.ENDCAP_BUILD_TESTS=ON \
  -Ccmake.define.ENDCAP_WARNINGS_AS_ERRORS=$(WERROR) -Ccmake.define.ENDCAP_CUDA_ARCHITECTURES=75-virtual
CONFIGURED := $(BUILD)/.configured-$(WERROR)-$(UNITY)
COMPILE = NINJA_STATUS="[%f of %t, %w] " cmake --build $(BUILD) --parallel $(JOBS)
INSTALL = cmake --install $(BUILD) --prefix \
  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')" --component
SECONDS ?= 60

define MAKE_VENV
PYTHON=$(PYTHON) scripts/system_packages.sh build
test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
$(1)/bin/pip install --quiet --upgrade 'pip>=25.1'
$(1)/bin/pip install --quiet --no-warn-conflicts --prefer-binary --group $(2)
endef
define TEST_PRESET
cmake --preset $(1) -DENDCAP_WARNINGS_AS_ERRORS=$(WERROR)
cmake --build --preset $(1) --parallel $(JOBS)
ctest --preset $(1) --parallel $(JOBS)
endef

# Tools that are called by their names are those of .venv.
$(VENV)/.built $(VENV)/.demo demo-compiled $(CONFIGURED) lint sanitize races sanitize-server test-arm64 \
  test-fuzz fuzz: export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: help build demo test test-all test-cpp test-python test-triton test-slow test-arm64 test-fuzz test-peers evaluate \
        bench bench-server bench-gpu kernel-report lint lint-fast sanitize sanitize-server races fuzz \
        format docs wheel wheels gpu-machine clean demo-compiled FORCE

help:
	@sed -n 's/^\([a-z0-9-]*\):.*## /make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

demo: $(VENV)/.demo ## build, start a Triton server, detect in the sample pictures
	$(BIN)/endcap demo --output demo-output
build: $(VENV)/.built ## build everything; afterwards .venv/bin/endcap works
test: test-cpp test-fuzz test-python test-triton ## the tests
test-all: test test-slow test-arm64 test-peers sanitize races sanitize-server wheel ## these, and what takes longer
test-cpp: build ## the C++ tests
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)
test-python: build $(VENV)/.test ## the Python tests; those of GPU code run on the emulated GPU
	$(PYTEST) -m "not slow" tests/python tests/fuzz tests/dali tests/wheel
	ENDCAP_CUDA_LIBRARY=$(abspath $(BUILD))/tests/cuda_emulation/libendcap_cuda_emulated.so \
	  ENDCAP_REQUIRE_CUDA=1 $(PYTEST) tests/gpu
test-triton: build $(VENV)/.test ## the tests on a real server
	$(PYTEST) -m "not slow" tests/triton
test-slow: build $(VENV)/.test ## the Python tests that take long: clusters, restarts, data sets; TESTS=FILES
	$(PYTEST) -m slow $(or $(TESTS),tests/python tests/dali tests/triton)
test-fuzz: $(VENV)/.deps ## the committed corpora under AddressSanitizer and UBSan
	$(call TEST_PRESET,replay)
test-arm64: $(VENV)/.deps ## the C++ tests for arm64, cross-compiled, under QEMU; on Debian 12
	scripts/arm64_sysroot.sh build/arm64-sysroot
	$(call TEST_PRESET,arm64)
sanitize: build ## the C++ tests under AddressSanitizer and UBSan
	$(call TEST_PRESET,sanitize)
races: build ## the C++ tests under ThreadSanitizer, which sees the threads of an emulated GPU
	$(call TEST_PRESET,races)

sanitize-server: TEST_JOBS := 2
sanitize-server: build $(VENV)/.test ## the tests on a real server, with sanitized backends
	cmake --preset $@
	cmake --build --preset $@
	scripts/sanitized.sh build/$@ $(PYTEST) -m "not slow" $(or $(TESTS),tests/triton)
fuzz: $(VENV)/.test ## the fuzz targets, SECONDS=60 each
	scripts/system_packages.sh fuzz
	cmake --preset fuzz
	cmake --build --preset fuzz --parallel $(JOBS)
	$(BIN)/python scripts/fuzz.py --seconds $(SECONDS)
	ENDCAP_FUZZ_EXAMPLES=$$((20 * $(SECONDS))) $(BIN)/python -m pytest tests/fuzz

# Scenes that no training has seen, drawn once; see training/README.md.
evaluate: build $(VENV)/.test ## the sample detector's accuracy through the server
	test -f build/scenes/annotations.json || $(BIN)/python -m training.make_dataset --count 400 --output build/scenes
	$(BIN)/endcap evaluate build/scenes build/scenes/annotations.json --repository model_repository \
	  --reference model_repository/detector/1/model.onnx --max-difference 0.002 --min-map50 0.90
# What ultralytics exports is served by the environment that has the server.
test-peers: build $(BENCH)/.endcap $(BENCH)/.peers ## results equal those of OpenCV, torchvision, ultralytics
	scripts/system_packages.sh bench
	ENDCAP_SERVER_PYTHON=$(abspath $(BIN))/python YOLO_AUTOINSTALL=false \
	  $(BENCH_BIN)/python -m pytest tests/peers

# bench-server runs in the server's environment; the other one has FastAPI, the photographs and matplotlib.
bench: $(BENCH)/.endcap ## comparison with the peers; BENCH_OPTIONS=--quick
	-$(MAKE) --no-print-directory $(BENCH)/.libraries
	$(BENCH_BIN)/python -m benchmarks.cpu $(BENCH_OPTIONS)
bench-server: build $(BENCH)/.deps ## a Triton server under NVIDIA's perf_analyzer
	scripts/system_packages.sh bench
	$(BIN)/python -m benchmarks.server --bench-python $(BENCH_BIN)/python $(BENCH_OPTIONS)
bench-gpu: $(BENCH)/.endcap ## the GPU code next to its peers
	-$(MAKE) --no-print-directory $(BENCH)/.libraries
	$(BENCH_BIN)/python -m benchmarks.gpu $(BENCH_OPTIONS)

kernel-report: $(VENV)/.deps ## the kernels' instructions, barriers and loads, counted without a GPU
	$(BIN)/pip install --quiet --group kernel-report
	$(BIN)/python scripts/kernel_report.py
lint: lint-fast .clang-tidy ## what lint-fast does, and clang-tidy; FILES='A.cc|B.cc'
	cmake -S . -B build/tidy -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DENDCAP_BUILD_PYTHON=OFF >/dev/null
	$(BIN)/python $(BIN)/run-clang-tidy.py -quiet -j $(JOBS) -clang-tidy-binary $(BIN)/clang-tidy \
	  -p build/tidy '^$(CURDIR)/($(or $(FILES),(csrc|backends)/.*\.cc))$$'
lint-fast: build docs $(VENV)/.test $(VENV)/.lint ## formatters, ruff, mypy, layers of imports, the documentation
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.cc' '*.h' '*.cu' '*.cuh')
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	cd pyext && $(abspath $(BIN))/lint-imports ../pyproject.toml --no-cache
format: $(VENV)/.lint ## let the formatters rewrite the files
	$(BIN)/clang-format -i $$(git ls-files '*.cc' '*.h' '*.cu' '*.cuh')
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
docs: build $(VENV)/.lint ## the documentation in build/docs
	$(BIN)/sphinx-build -W --keep-going -q -E -b html docs build/docs

# SOURCE_DATE_EPOCH, the time of the commit, makes two builds with the same tools equal.
wheel: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)
wheel: export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
wheel: export PATH := $(abspath $(WHEEL)/venv/bin):$(PATH)
wheel: $(WHEEL)/.tools-$(CUDA) ## a checked wheel in dist/; PYTHON=python3.12, CUDA=OFF
	rm -rf $(WHEEL)/built $(WHEEL)/repaired
	env -u CFLAGS -u CXXFLAGS -u CPPFLAGS -u LDFLAGS -u CMAKE_ARGS python -m build --wheel --no-isolation \
	  -Cbuild-dir=$(abspath $(WHEEL)/tree) -Ccmake.define.ENDCAP_CUDA=$(CUDA) --outdir $(WHEEL)/built .
	python scripts/repair_wheel.py $(WHEEL)/built/*.whl $(WHEEL)/tree $(WHEEL)/repaired
	python scripts/check_wheel.py $(WHEEL)/repaired/*.whl $(if $(filter OFF,$(CUDA)),--without-cuda)
	mkdir -p dist && mv $(WHEEL)/repaired/*.whl dist/
wheels: $(VENV)/.deps ## one for each Python, by cibuildwheel, which needs a container engine
	$(BIN)/pip install --quiet 'cibuildwheel>=4.3'
	$(BIN)/cibuildwheel --platform linux --output-dir dist

gpu-machine: wheel ## an archive with the wheel, GPU tests and bench-gpu for a machine without network
	$(WHEEL)/venv/bin/python scripts/gpu_machine.py pack dist/endcap-gpu.tar
clean: ## remove what was built
	rm -rf build dist demo-output $(VENV)

$(VENV)/.deps: pyproject.toml scripts/system_packages.sh
	@echo "endcap: preparing $(VENV), less than a minute"
	$(call MAKE_VENV,$(VENV),build)
	touch $@
$(CONFIGURED): $(VENV)/.deps Makefile
	@$(BIN)/python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' || { echo \
	  "endcap: .venv needs Python 3.10 to 3.12, the last with NumPy below 2, which the tests' server needs:" \
	  "remove .venv, and run make build PYTHON=python3.12" >&2; exit 2; }
	$(CONFIGURE)
	rm -f $(BUILD)/.configured* && touch $@
$(VENV)/.server: $(CONFIGURED)
	$(BIN)/pip install --quiet 'endcap[server,video,web,evaluate,init,env]' --group test-server --group test-opencv
	touch $@
# Two jobs: packages are downloaded while the compiler runs.
$(VENV)/.demo: $(CONFIGURED) $(SOURCES)
	@echo "endcap: compiling what the demo runs; the server is installed meanwhile"
	$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j2) demo-compiled $(VENV)/.server
	$(INSTALL) demo
	touch $@
demo-compiled:
	@$(COMPILE) --target endcap_demo
$(VENV)/.built: $(CONFIGURED) $(VENV)/.server $(SOURCES)
	@$(COMPILE)
	for component in files demo python; do $(INSTALL) $$component || exit; done
	touch $(VENV)/.demo $@
$(VENV)/.test: $(VENV)/.deps
	$(BIN)/pip install --quiet --group test --group test-dali-python
	$(BIN)/pip install --quiet --no-deps --group test-dali
	PLAYWRIGHT=$(BIN)/playwright scripts/system_packages.sh test
	touch $@
$(VENV)/.lint: $(VENV)/.deps
	$(BIN)/pip install --quiet --group lint
	touch $@

$(BENCH)/.deps: pyproject.toml scripts/system_packages.sh
	$(call MAKE_VENV,$(BENCH),bench)
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-deps --group bench-images
	touch $@
# What pip would warn of is meant: parts of torch's and ultralytics' requirements are left out.
$(BENCH)/.libraries: $(BENCH)/.deps
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-deps --no-cache-dir --group bench-torch
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --group peer-dali
	touch $@
$(BENCH)/.peers: $(BENCH)/.libraries
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-deps --no-cache-dir --group peers
	touch $@
# What users get: a release build, installed, not in editable form.
$(BENCH)/.endcap: $(BENCH)/.deps $(SOURCES) $(shell find pyext/endcap -name '*.py')
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) PATH="$(abspath $(BENCH_BIN)):$$PATH" \
	$(BENCH_BIN)/pip install --quiet --no-warn-conflicts --no-build-isolation . \
	  -Cbuild-dir=build/bench-core -Ccmake.define.ENDCAP_CUDA=$$(command -v nvidia-smi >/dev/null && echo ON || echo OFF)
	touch $@

$(WHEEL)/.tools-$(CUDA): pyproject.toml scripts/system_packages.sh
	$(call MAKE_VENV,$(WHEEL)/venv,wheel $(if $(filter OFF,$(CUDA))$(NVCC),,--group cuda-build))
	touch $@
