//! The namespaces of a wiki, which decide whether a link is text.

/// Names, in lower case, of the namespaces of files and categories in large Wikipedias. A dump of another language may
/// use these names too.
const HIDDEN: &[&str] = &[
    "file",
    "image",
    "media",
    "category",
    "bild",
    "datei",
    "kategorie",
    "fichier",
    "catégorie",
    "archivo",
    "imagen",
    "categoría",
    "immagine",
    "categoria",
    "ficheiro",
    "imagem",
    "bestand",
    "afbeelding",
    "categorie",
    "plik",
    "grafika",
    "kategoria",
    "файл",
    "изображение",
    "категория",
    "зображення",
    "категорія",
    "ファイル",
    "画像",
    "カテゴリ",
    "文件",
    "图像",
    "檔案",
    "圖像",
    "分类",
    "分類",
    "ملف",
    "صورة",
    "تصنيف",
    "파일",
    "그림",
    "분류",
    "fil",
    "kategori",
    "tiedosto",
    "kuva",
    "luokka",
    "soubor",
    "kép",
    "fájl",
    "dosya",
    "resim",
    "berkas",
    "gambar",
    "tập tin",
    "hình",
    "thể loại",
    "קובץ",
    "תמונה",
    "קטגוריה",
    "پرونده",
    "تصویر",
    "رده",
    "चित्र",
    "श्रेणी",
];

/// The visible part of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The text of the link, or its target if it has no text.
    Target,
    /// Nothing in the text: a file, a category, the same article in another language.
    Nothing,
}

/// The namespaces of one wiki.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    /// Local names of the namespaces of files and categories, in lower case.
    hidden: Vec<String>,
}

impl Namespaces {
    /// Adds the local name of a namespace by its number.
    pub(crate) fn add(&mut self, key: &str, name: &str) {
        // Media, files and categories.
        if matches!(key, "-2" | "6" | "14") && self.hidden.len() < 16 && name.len() < 200 {
            self.hidden.push(name.trim().to_lowercase());
        }
    }

    /// Returns the visible part of a link to this target.
    pub(super) fn shown(&self, target: &str, has_text: bool) -> Shown {
        // No name of a namespace is longer.
        let start = &target[..target.floor_char_boundary(200)];
        let Some((prefix, rest)) = start.split_once(':') else { return Shown::Target };
        let name = prefix.trim().to_lowercase().replace('_', " ");
        if name.is_empty() {
            return Shown::Target;
        }
        let is_hidden = HIDDEN.contains(&name.as_str()) || self.hidden.contains(&name);
        // Titles begin with a capital; `[[re:publica]]` is the name of an article.
        let is_language = is_language_code(prefix.trim_start())
            && rest.starts_with(|c: char| c != ' ' && !c.is_lowercase());
        if is_hidden || (is_language && !has_text) { Shown::Nothing } else { Shown::Target }
    }
}

/// Returns whether a prefix of a link is the code of a Wikipedia: two or three letters, or a longer one with hyphens.
fn is_language_code(prefix: &str) -> bool {
    let letters = prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let first = prefix.split('-').next().unwrap_or_default().len();
    letters && ((2..=3).contains(&first) && prefix.len() <= 12 || prefix == "simple")
}
