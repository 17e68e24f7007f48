"""Bar charts with quartiles, as SVG: a group of bars for each thing measured, a bar for each way."""
import math

WIDTH, HEIGHT = 90, 220  # of a group of bars, in pixels
COLOURS = ("#9aa5b1", "#8a5fbf", "#1f6fb2", "#2e8b57", "#c23b22")


def draw(path, title, axis, groups, ways):
    """groups: (label, note below it, [(median, first quartile, third quartile) or None for each way]).  A line marks 1."""
    most = max([1] + [number for _, _, bars in groups for bar in bars if bar for number in bar])
    wide, bar_width = len(groups) * WIDTH, (WIDTH - 14) / len(ways)
    full = max(wide, 110 * len(ways))

    def y(value):
        return 30 + HEIGHT * (1 - value / most)
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full + 60} {HEIGHT + 90}" font-family="sans-serif" font-size="10">',
            f'<title>{title}</title><rect width="100%" height="100%" fill="#fff"/>']
    for value in range(0, math.floor(most) + 1, max(1, round(most / 6))):
        text.append(f'<path d="M40 {y(value):.1f}H{40 + wide}" stroke="#ddd"/>'
                    f'<text x="34" y="{y(value) + 3:.1f}" text-anchor="end">{value}</text>')
    text.append(f'<path d="M40 {y(1):.1f}H{40 + wide}" stroke="#333"/>')
    for i, (label, note, bars) in enumerate(groups):
        left = 40 + i * WIDTH + 7
        for k, (bar, colour) in enumerate(zip(bars, COLOURS)):
            if bar:
                x = left + (k + 0.5) * bar_width
                text.append(f'<rect x="{left + k * bar_width:.1f}" y="{y(bar[0]):.1f}" width="{bar_width - 1:.1f}" '
                            f'height="{y(0) - y(bar[0]):.1f}" fill="{colour}"/>'
                            f'<path d="M{x:.1f} {y(bar[1]):.1f}V{y(bar[2]):.1f}" stroke="#000" stroke-width="0.8"/>')
        text.append(f'<text x="{left + WIDTH / 2 - 7}" y="{HEIGHT + 44}" text-anchor="middle">{label}</text>'
                    f'<text x="{left + WIDTH / 2 - 7}" y="{HEIGHT + 57}" text-anchor="middle" font-size="8">{note}</text>')
    for k, (way, colour) in enumerate(zip(ways, COLOURS)):
        text.append(f'<rect x="{40 + 110 * k}" y="{HEIGHT + 70}" width="9" height="9" fill="{colour}"/>'
                    f'<text x="{53 + 110 * k}" y="{HEIGHT + 78}">{way}</text>')
    text.append(f'<text x="40" y="18">{axis}</text>')
    with open(path, "w") as file:
        file.write("\n".join(text + ["</svg>", ""]))
