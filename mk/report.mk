# The styles of reports and of pictures (src/host/report), which travel inside the program.
EXTRA_OBJECTS += $(BUILD)/gen/report_style.o

REPORT_STYLES := src/host/report/plot/chart.css src/host/report/html/style.css
$(BUILD)/gen/report_style.c: $(REPORT_STYLES) mk/report.mk
	@mkdir -p $(@D)
	@{ echo 'extern const char kas_chart_style[], kas_report_style[];'; echo 'const char kas_chart_style[] ='; $(c_string) $<; \
	   echo '; const char kas_report_style[] ='; $(c_string) $(word 2,$^); echo ';'; } >$@.new
	@mv $@.new $@

$(BUILD)/gen/report_style.o: $(BUILD)/gen/report_style.c
	$(CC) $(CFLAGS) -c -o $@ $<
