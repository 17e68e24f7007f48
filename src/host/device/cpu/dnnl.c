#include "host/device/cpu/cpu.h"

#ifdef KAS_HAVE_DNNL

#include "host/device/cpu/dnnl.h"

kas_status kas_dnnl_fail(dnnl_status_t code, const char *statement)
{
    if (code == dnnl_unimplemented)
        return kas_fail(KAS_UNSUPPORTED, "oneDNN refuses: %s", statement);
    if (code == dnnl_out_of_memory)
        return kas_fail(KAS_NO_MEMORY, "oneDNN is out of memory: %s", statement);
    return kas_fail(KAS_DEVICE, "%s: oneDNN status %d", statement, (int)code);
}

kas_status kas_dnnl_open(kas_cpu *cpu)
{
    if (!cpu->engine)
        TRY_DNNL(dnnl_engine_create((dnnl_engine_t *)&cpu->engine, dnnl_cpu, 0));
    if (!cpu->stream)
        TRY_DNNL(dnnl_stream_create((dnnl_stream_t *)&cpu->stream, cpu->engine,
                                    dnnl_stream_default_flags));
    return KAS_OK;
}

#endif
