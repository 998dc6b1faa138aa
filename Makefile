# GNU make, /bin/sh. `make help` lists the targets.
GO      ?= go
SCRIPTS := tools/scripts
KERNELS := $(GO) run ./tools/kernels -glslc $(SCRIPTS)/glslc -opt $(SCRIPTS)/spirv-opt -val $(SCRIPTS)/spirv-val -clang $(SCRIPTS)/clang
TERN    := $(GO) run ./tools/tern
PROMPT  ?= What is the capital of France?
LDFLAGS := -s -w
PLATFORMS := linux/amd64 linux/arm64 windows/amd64 darwin/arm64

# The packages that run goroutines, for the race detector, and those that use a
# driver, for the second one.
RACE   := ./vk ./runtime ./runtime/ref ./model ./tools/serve ./tools/serve/sched ./tools/tern
DEVICE := ./vk ./runtime ./runtime/conform ./model

# A package may take longer than go test's ten minutes where the machine is slow or busy.
SLOW := -timeout 40m

# The binary is pure Go: only the race detector uses a C compiler.
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help run test vet race test-arm64 test-windows build cross dist libtern test-libtern desktop desktop-shaders gen gen-check bench conform conform-long faults emulate pipelines sid-root swiftshader driver test-tools clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 18

run: driver ## answer a question with the embedded model (PROMPT=...)
	@$(TERN) run "$(PROMPT)"

test: test-tools vet ## all tests: every package, again on a second driver, and under the race detector
	$(GO) test -count=1 $(SLOW) ./...
	$(SCRIPTS)/on-drivers "swiftshader" $(GO) test -short -count=1 $(SLOW) $(DEVICE)
	$(MAKE) --no-print-directory race

vet:
	$(GO) vet ./...

race: ## the tests of the concurrent packages under the race detector
	$(SCRIPTS)/race $(GO) test -short -count=1 $(SLOW) $(RACE)

test-arm64: ## the reference on arm64, emulated by qemu
	$(SCRIPTS)/arm64 $(GO) test -short -count=1 ./runtime/ref ./runtime/graph ./model ./model/gguf ./model/rope ./model/token
	$(SCRIPTS)/arm64 $(GO) run ./tools/tern verify --device reference

test-windows: ## the Windows build under wine on lavapipe (root)
	$(SCRIPTS)/windows

build: ## bin/tern, pure Go, no C compiler
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./tools/tern

cross: ## bin/OS-ARCH/tern for every platform
	@for p in $(PLATFORMS); do \
		echo "building $$p"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/$${p%/*}-$${p#*/}/ ./tools/tern || exit; \
	done

dist: ## bin/dist: archives for every platform, with licences and checksums
	$(GO) run ./tools/dist

libtern: ## bin/libtern: the library for C and C++, with its header (needs a C compiler)
	CGO_ENABLED=1 $(GO) build -buildmode=c-shared -trimpath -ldflags '$(LDFLAGS) -extldflags=-Wl,-soname,libtern.so.1' -o bin/libtern/libtern.so.1 ./tools/libtern
	ln -sf libtern.so.1 bin/libtern/libtern.so
	cp tools/libtern/tern.h bin/libtern/
	rm -f bin/libtern/libtern.so.h bin/libtern/libtern.h

test-libtern: ## the library's examples and checks, through CMake
	cmake -B build/cmake
	cmake --build build/cmake --target libtern_tests
	ctest --test-dir build/cmake -L libtern --output-on-failure

desktop: ## bin/desktop: the example with a window (needs a C compiler and, on Linux, the headers of X11 and OpenGL)
	CGO_ENABLED=1 $(GO) build -tags desktop -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./tools/desktop

desktop-shaders: ## compile the shaders of the desktop example
	for s in vert frag; do \
		$(SCRIPTS)/glslc --target-env=vulkan1.1 -O -o tools/desktop/frame/ui.$$s.spv tools/desktop/frame/ui.$$s && \
		$(SCRIPTS)/spirv-val --target-env vulkan1.1 tools/desktop/frame/ui.$$s.spv || exit; \
	done

gen: ## compile the kernel list to spirv/ with the release compiler
	$(KERNELS)

gen-check: ## compile the kernel list anew and compare with what is committed
	$(KERNELS) -check

bench: driver ## speed of the embedded model, and of small products, on the chosen device
	$(TERN) bench
	$(TERN) bench --products --shape tiny -p 1,8,64

conform: test-tools sid-root ## every kernel on every driver and device here, and as on others: some minutes
	$(SCRIPTS)/matrix

conform-long: test-tools sid-root ## everything on every CPU driver here: hours
	TERN_CONFORM=all $(SCRIPTS)/on-drivers "lavapipe lavapipe-sid swiftshader" $(GO) test -count=1 -timeout 4h $(DEVICE) ./tools/internal/synth
	$(SCRIPTS)/on-drivers "lavapipe lavapipe-sid swiftshader" $(TERN) verify --full --every-way
	$(SCRIPTS)/on-drivers "lavapipe lavapipe-sid swiftshader" $(TERN) verify -m synth:wide --full --every-way
	$(GO) run ./tools/emulate -clang $(SCRIPTS)/clang -cases 200 -work 40000000 -seed 2
	$(MAKE) --no-print-directory test-arm64 test-windows faults

faults: test-tools sid-root ## plant twelve faults, each of which must be noticed, and record in testdata/conform how
	$(SCRIPTS)/on-drivers "lavapipe lavapipe-sid swiftshader" sh -c '$(GO) run ./tools/faults -o testdata/conform/faults-$$TERN_DRIVER.md'

emulate: test-tools ## the kernels in CUDA on the processor, against the reference, and faults planted in them
	$(GO) run ./tools/emulate -clang $(SCRIPTS)/clang
	$(GO) test -count=1 ./tools/emulate

pipelines: test-tools ## compile all kernels for AMD cards, and record registers and spills in testdata/conform
	for card in gfx900 gfx1030 gfx1100; do \
		$(SCRIPTS)/with-driver radv-$$card $(GO) run ./tools/pipelines -o testdata/conform/radv-$$card.txt || exit; \
	done

sid-root: ## unpack Debian sid's lavapipe (cooperative matrices) into .root/sid
	$(SCRIPTS)/sid-root

swiftshader: ## unpack SwiftShader into .root/swiftshader
	$(SCRIPTS)/swiftshader

driver: # a Vulkan loader and a driver, or advice
	@$(SCRIPTS)/ensure-driver

test-tools: # what the tests use besides Go
	@$(SCRIPTS)/ensure-test-tools

clean: ## remove what was built (not .root)
	rm -rf bin build
