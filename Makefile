# make help lists the targets. GNU make, /bin/sh.
SCRIPTS := tools/scripts
GO      ?= go
export GOFLAGS ?= -mod=mod

.PHONY: gen gen-check

gen: ## compile the kernel list to spirv/ with the release compiler
	$(GO) run ./tools/kernels -glslc $(SCRIPTS)/glslc -val $(SCRIPTS)/spirv-val

gen-check: ## compile everything anew and compare with what is committed
	$(GO) run ./tools/kernels -check -glslc $(SCRIPTS)/glslc -val $(SCRIPTS)/spirv-val
