package page

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	// mostPicture bounds a picture of the documentation, in bytes, and mostHeight in pixels of the
	// page.
	mostPicture, mostHeight = 100 << 10, 1240
)

// keep keeps a picture of what the tab shows for the documentation. It has at most 256 colours, so
// that it is small.
func (p *tab) keep(name string) {
	p.t.Helper()
	p.steady()
	p.fits()
	p.shotOf("docs-"+name, mostHeight)
	raw, err := os.ReadFile(artefact(p.t, "docs-"+name+".png"))
	if err != nil {
		p.t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		p.t.Fatal(err)
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&small, fewColours(full)); err != nil {
		p.t.Fatal(err)
	}
	if small.Len() > mostPicture {
		p.t.Errorf("the picture %s has %d bytes", name, small.Len())
	}
	if err := os.WriteFile(filepath.Join(screenshots(p.t), name+".png"), small.Bytes(), 0o644); err != nil {
		p.t.Error(err)
	}
}

// screenshots is where the pictures of the documentation go: WEIR_SCREENSHOTS, or bin/page/docs.
func screenshots(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WEIR_SCREENSHOTS")
	if dir == "" {
		dir = filepath.Join(root, "bin", "page", "docs")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// alike is how far apart two colours are, as a sum of squares, that people take for one.
const alike = 3 * 5 * 5

// near reports whether a colour is like one of a palette.
func near(palette color.Palette, c color.RGBA) bool {
	return slices.ContainsFunc(palette, func(other color.Color) bool {
		o := other.(color.RGBA)
		r, g, b := int(o.R)-int(c.R), int(o.G)-int(c.G), int(o.B)-int(c.B)
		return r*r+g*g+b*b <= alike
	})
}

// fewColours is a picture with 256 colours, those that most of its pixels have and that are not
// alike; others become the nearest of them.
func fewColours(from image.Image) *image.Paletted {
	bounds := from.Bounds()
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return count[b] - count[a] })
	var palette color.Palette
	for _, c := range all {
		if len(palette) < 256 && !near(palette, c) {
			palette = append(palette, c)
		}
	}
	to := image.NewPaletted(bounds, palette)
	index := map[color.RGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			i, known := index[c]
			if !known {
				i = uint8(palette.Index(c)) // there are at most 256
				index[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	return to
}
