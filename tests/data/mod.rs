//! The data builder: options, parts, paths, warnings.

mod held_out; // held-out documents, standard input
mod hub; // data sets by their names on the Hugging Face Hub
mod options; // options that decide the data are printed, saved and read back
mod parts; // a data set made in parts, and with little memory, is the same data set
mod paths; // file:// URLs, lists with commas, URLs with passwords
mod warnings; // warnings with figures, the fraction of [UNK], disk space
