/* Lends a Vulkan device to Tern: as a program does that draws with it. The queue is locked
 * while one of the two uses it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tern.h>
#include <vulkan/vulkan.h>

#define CHECK(x) \
	do { \
		if ((x) != VK_SUCCESS) { \
			fprintf(stderr, "%s failed\n", #x); \
			exit(1); \
		} \
	} while (0)

/* A program with threads has a mutex here. */
static int locked, times;

static void lock(void *user) {
	(void)user;
	locked++;
	times++;
}

static void unlock(void *user) {
	(void)user;
	locked--;
}

static uint32_t compute_family(VkPhysicalDevice physical) {
	VkQueueFamilyProperties families[16];
	uint32_t n = 16;
	vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families);
	for (uint32_t i = 0; i < n; i++)
		if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)
			return i;
	fprintf(stderr, "no queue computes\n");
	exit(1);
}

int main(void) {
	VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
	VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
	VkPhysicalDevice16BitStorageFeatures storage = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
	VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &storage};
	float priority = 1;
	VkDeviceQueueCreateInfo queues = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
	VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &storage, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queues};
	VkInstance instance;
	VkPhysicalDevice physical;
	VkDevice device;
	VkQueue queue;
	uint32_t one = 1;
	VkResult listed;
	int code;

	CHECK(vkCreateInstance(&instance_info, NULL, &instance));
	listed = vkEnumeratePhysicalDevices(instance, &one, &physical);
	if (one == 0 || (listed != VK_SUCCESS && listed != VK_INCOMPLETE)) {
		fprintf(stderr, "no device\n");
		return 1;
	}
	vkGetPhysicalDeviceFeatures2(physical, &features);
	storage = (VkPhysicalDevice16BitStorageFeatures){.sType = storage.sType, .storageBuffer16BitAccess = storage.storageBuffer16BitAccess};
	queues.queueFamilyIndex = compute_family(physical);
	CHECK(vkCreateDevice(physical, &device_info, NULL, &device));
	vkGetDeviceQueue(device, queues.queueFamilyIndex, 0, &queue);

	tern_vulkan vulkan;
	tern_options options;
	tern_model model;
	tern_session session;
	const char *piece;
	tern_vulkan_init(&vulkan);
	vulkan.instance = instance;
	vulkan.physical_device = physical;
	vulkan.device = device;
	vulkan.queue = queue;
	vulkan.queue_family = queues.queueFamilyIndex;
	vulkan.api_version = VK_API_VERSION_1_1;
	vulkan.features = storage.storageBuffer16BitAccess ? "store16" : NULL;
	vulkan.lock = lock;
	vulkan.unlock = unlock;
	tern_options_init(&options);
	options.vulkan = &vulkan;
	if (tern_open(NULL, &options, &model) || tern_session_open(model, &session) || tern_prompt(session, "What is the capital of France?", NULL)) {
		fprintf(stderr, "%s\n", tern_error());
		return 1;
	}
	while ((code = tern_next(session, &piece, NULL, NULL)) == TERN_OK)
		fputs(piece, stdout);
	printf("\n%s\n", code == TERN_END && tern_close(model) == TERN_OK && locked == 0 && times > 0 ? "the queue was shared" : tern_error());

	vkDestroyDevice(device, NULL); /* Tern has left it */
	vkDestroyInstance(instance, NULL);
	return code == TERN_END ? 0 : 1;
}
