# The style of reports (src/host/report/html), which travels inside the program.
EXTRA_OBJECTS += $(BUILD)/gen/report_style.o

$(BUILD)/gen/report_style.c: src/host/report/html/style.css mk/report.mk
	@mkdir -p $(@D)
	@{ echo 'extern const char kas_report_style[];'; echo 'const char kas_report_style[] ='; $(c_string) $<; echo ';'; } >$@.new
	@mv $@.new $@

$(BUILD)/gen/report_style.o: $(BUILD)/gen/report_style.c
	$(CC) $(CFLAGS) -c -o $@ $<
