package vk

// Error is the VK_ name of the result and what it means.
func (r Result) Error() string {
	if why := explanations[r]; why != "" {
		return r.String() + ": " + why
	}
	return r.String()
}

var explanations = map[Result]string{
	Success:                          "no error",
	NotReady:                         "the fence or query has not completed yet",
	Timeout:                          "the wait did not complete in the time given",
	EventSet:                         "the event is signalled",
	EventReset:                       "the event is not signalled",
	Incomplete:                       "the array was too small for all results",
	PipelineCompileRequired:          "the pipeline is not in the cache and compiling it was forbidden",
	ErrorOutOfHostMemory:             "the driver is out of host memory",
	ErrorOutOfDeviceMemory:           "the device is out of memory",
	ErrorInitializationFailed:        "the driver could not initialise the object",
	ErrorDeviceLost:                  "the device is lost (a fault, a reset after too long a submission, or it was removed)",
	ErrorMemoryMapFailed:             "the memory could not be mapped",
	ErrorLayerNotPresent:             "a layer that was asked for is not installed",
	ErrorExtensionNotPresent:         "an extension or command is not supported here",
	ErrorFeatureNotPresent:           "a feature that was asked for is not supported",
	ErrorIncompatibleDriver:          "no driver supports what was asked for",
	ErrorTooManyObjects:              "too many objects of this kind exist",
	ErrorFormatNotSupported:          "the format is not supported on this device",
	ErrorFragmentedPool:              "the pool is too fragmented for the allocation",
	ErrorUnknown:                     "the driver gave no reason: it failed, or was used wrongly",
	ErrorOutOfPoolMemory:             "the pool has no room left",
	ErrorInvalidExternalHandle:       "the external handle is not valid or not of the kind given",
	ErrorInvalidOpaqueCaptureAddress: "the address asked for is not available",
	ErrorFragmentation:               "the descriptor pool is too fragmented",
	ErrorValidationFailed:            "a validation layer rejected the call",
	ErrorNotPermitted:                "the driver denied the request, such as a queue priority, to this user",
}
