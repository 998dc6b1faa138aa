# make help lists the targets. GNU make, /bin/sh.
SCRIPTS := tools/scripts
GO      ?= go
export GOFLAGS ?= -mod=mod

KERNELS := $(GO) run ./tools/kernels -glslc $(SCRIPTS)/glslc -opt $(SCRIPTS)/spirv-opt -val $(SCRIPTS)/spirv-val

.PHONY: gen gen-check

gen: ## compile the kernel list to spirv/ with the release compiler
	$(KERNELS)

gen-check: ## compile everything anew and compare with what is committed
	$(KERNELS) -check
