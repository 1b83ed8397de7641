/* A simulated libEGL.so.1 with the device extensions alone.
 *
 * The environment variable GMG_EGL_SIM lists its devices, parted by commas: a number is the CUDA ordinal that the device
 * reports, `software` is a device without one; `@PATH` names a file with the list. The single words `crash` and `hang` are what the driver does instead.
 * When CUDA_VISIBLE_DEVICES is set, all ordinals are 0: a real driver gives them relative to it.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CUDA_DEVICE_NV = 0x323A, MAX_DEVICES = 64 };

static long ordinals[MAX_DEVICES]; /* a device is the address of its entry */

static unsigned query_devices(int room, void **out, int *count)
{
    char text[1024] = "";
    const char *listed = getenv("GMG_EGL_SIM");
    if (listed && *listed == '@') {
        FILE *file = fopen(listed + 1, "r");
        if (file) {
            if (!fgets(text, sizeof text, file))
                *text = '\0';
            fclose(file);
        }
    } else {
        strncat(text, listed ? listed : "", sizeof text - 1);
    }
    if (strcmp(text, "crash") == 0)
        raise(SIGSEGV);
    while (strcmp(text, "hang") == 0)
        pause();
    *count = 0;
    for (char *word = strtok(text, ","); word && *count < MAX_DEVICES; word = strtok(NULL, ",")) {
        ordinals[*count] = strcmp(word, "software") == 0 ? -1 : atol(word);
        if (out && *count < room)
            out[*count] = &ordinals[*count];
        ++*count;
    }
    return 1;
}

static unsigned query_attribute(const long *device, int attribute, long *out)
{
    if (attribute != CUDA_DEVICE_NV || *device < 0)
        return 0;
    *out = getenv("CUDA_VISIBLE_DEVICES") ? 0 : *device;
    return 1;
}

static const char *query_string(const long *device, int name)
{
    (void)device, (void)name;
    return NULL;
}

void *eglGetProcAddress(const char *name)
{
    if (strcmp(name, "eglQueryDevicesEXT") == 0)
        return (void *)query_devices;
    if (strcmp(name, "eglQueryDeviceAttribEXT") == 0)
        return (void *)query_attribute;
    if (strcmp(name, "eglQueryDeviceStringEXT") == 0)
        return (void *)query_string;
    return NULL;
}
