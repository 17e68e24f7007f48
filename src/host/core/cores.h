/* How many cores this process may use: its affinity, as batch systems and taskset set it. */
#ifndef KAS_CORE_CORES_H
#define KAS_CORE_CORES_H

int kas_cores(void); /* at least 1 */

#endif
