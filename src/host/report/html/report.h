/* Writes studies as one HTML page that needs nothing else: pictures are SVG inside it, it makes no
 * request and runs no script, and the data lies in it as JSON (docs/report.md). Other folders
 * include this header. */
#ifndef KAS_REPORT_HTML_REPORT_H
#define KAS_REPORT_HTML_REPORT_H

#include "host/core/buf.h"

enum { KAS_REPORT_STUDIES = 64, KAS_REPORT_BYTES = 2000000 };

/* Appends a page of fewer than KAS_REPORT_BYTES bytes on 1 to KAS_REPORT_STUDIES studies, given by
 * their folders. With several the page compares them. `about` says which program writes it, with
 * its version and those of its libraries, a line each. Failures are those of reading a study. */
kas_status kas_report_html(const char *const *folders, int count, const char *about, kas_buf *out);

#endif
