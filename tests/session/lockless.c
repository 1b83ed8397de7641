/* A file system without locks: flock(2) and the locks of fcntl(2) fail with the error number in GMG_NO_LOCKS, as on
 * Lustre without `-o flock` (ENOSYS), NFS without its lock manager (ENOLCK) and others. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

static int refuse(void)
{
    errno = atoi(getenv("GMG_NO_LOCKS"));
    return -1;
}

int flock(int file, int operation)
{
    (void)file, (void)operation;
    return refuse();
}

static int control(const char *name, int file, int command, void *argument)
{
    int (*next)(int, int, ...) = dlsym(RTLD_NEXT, name);
    return command == F_SETLK || command == F_SETLKW || command == F_GETLK ? refuse() : next(file, command, argument);
}

#define CONTROL(name)                                      \
    int name(int file, int command, ...)                   \
    {                                                      \
        va_list rest;                                      \
        va_start(rest, command);                           \
        void *argument = va_arg(rest, void *);             \
        va_end(rest);                                      \
        return control(#name, file, command, argument);    \
    }

CONTROL(fcntl)
CONTROL(fcntl64)
