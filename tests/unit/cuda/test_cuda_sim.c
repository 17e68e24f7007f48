/* The stand-in for NVIDIA's libraries itself, where no test of the CUDA device shows it. */
#include "support/test.h"

#include "cuda_sim/load_sim.h"

static void *function(const char *name)
{
    void *found = dlsym(dlopen(sim.path, RTLD_NOW | RTLD_LOCAL), name);
    if (!found)
        fail_msg("%s: %s", name, dlerror());
    return found;
}

/* A cache that a stand-in with other checks has filled would abort tests, or let mistakes through.
 */
TEST(checks_are_in_the_key)
{
    int (*version)(int *major, int *minor), (*version_with)(const char *added), major, minor;
    *(void **)&version = function("nvrtcVersion");
    *(void **)&version_with = function("kas_sim_version");
    assert_int_equal(version(&major, &minor), 0);
    assert_int_equal(minor, version_with(NULL));
    assert_int_not_equal(minor, version_with(""));
    assert_int_not_equal(version_with("a check"), version_with("a chuck"));
    assert_true(minor >= 100); /* no release of NVIDIA's: they never share an entry */
}

RUN_TESTS(load_sim)
