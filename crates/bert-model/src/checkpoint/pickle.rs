//! Reads the pickles in PyTorch files. Builds dictionaries, storages and tensors, and runs nothing.
//!
//! A pickle is a program for a machine with a stack and a memo. Python's own reader looks up every class that the
//! program names and calls it. This reader knows the opcodes and the classes that `torch.save` writes for a dictionary
//! of tensors, and rejects all others by name. Sources: `Lib/pickletools.py` of CPython, `torch/serialization.py` and
//! `torch/_utils.py` of PyTorch.
//!
//! Containers are indices into [`Pickle`], so values are small copies, and a nested or cyclic container costs one
//! entry. Memory is proportional to the length of the pickle.

use std::collections::HashMap;

/// Maximum length of a pickle in bytes. The pickle of BERT-large has 65 kB.
pub(crate) const MAX_PICKLE_BYTES: u64 = 2 << 20;

/// Maximum number of dimensions of a tensor.
const MAX_RANK: usize = 4;

/// The reason why a pickle was rejected.
#[derive(Debug)]
pub(crate) enum PickleError {
    /// The pickle ends early or is inconsistent.
    Damaged(&'static str),
    /// The pickle contains an opcode or a class that a dictionary of tensors does not need.
    Refused(String),
}

/// The element type of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// Name of the storage class, for example `FloatStorage`.
    pub(crate) class: &'static str,
    /// Number of bytes per element.
    pub(crate) bytes: usize,
}

const ELEMENTS: [Element; 10] = [
    Element { class: "FloatStorage", bytes: 4 },
    Element { class: "HalfStorage", bytes: 2 },
    Element { class: "BFloat16Storage", bytes: 2 },
    Element { class: "DoubleStorage", bytes: 8 },
    Element { class: "LongStorage", bytes: 8 },
    Element { class: "IntStorage", bytes: 4 },
    Element { class: "ShortStorage", bytes: 2 },
    Element { class: "CharStorage", bytes: 1 },
    Element { class: "ByteStorage", bytes: 1 },
    Element { class: "BoolStorage", bytes: 1 },
];

/// A class or function that a pickle may name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Class {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Storage(Element),
}

impl Class {
    fn find(module: &str, name: &str) -> Result<Self, PickleError> {
        let storage = || ELEMENTS.into_iter().find(|element| element.class == name).map(Self::Storage);
        let found = match (module, name) {
            ("collections", "OrderedDict") => Some(Self::OrderedDict),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Some(Self::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Self::RebuildParameter),
            ("torch" | "torch.cuda", _) => storage(),
            _ => None,
        };
        found.ok_or_else(|| {
            PickleError::Refused(format!("the class {}", printable(&format!("{module}.{name}"))))
        })
    }
}

/// Returns the beginning of a name without control characters, for a message.
fn printable(name: &str) -> String {
    name.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A value on the stack. A container is represented by its index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// The little-endian bytes of an integer of more than 8 bytes, or the bytes of a float, whose value is not used.
    Bytes(&'a [u8]),
    Text(&'a str),
    Class(Class),
    /// A list or a tuple.
    Sequence(usize),
    Dict(usize),
    Storage(usize),
    Tensor(usize),
}

/// A storage: the elements of one or several tensors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storage<'a> {
    pub(crate) element: Element,
    pub(crate) key: &'a str,
    /// Number of elements.
    pub(crate) count: usize,
}

/// A view of a storage. Offset and strides are in elements.
#[derive(Clone, Debug)]
pub(crate) struct TensorView {
    pub(crate) storage: usize,
    pub(crate) offset: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

/// A parsed pickle: its root and the containers that values refer to.
#[derive(Debug)]
pub(crate) struct Pickle<'a> {
    pub(crate) root: Value<'a>,
    /// Length in bytes.
    pub(crate) length: usize,
    pub(crate) sequences: Vec<Vec<Value<'a>>>,
    pub(crate) dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    pub(crate) storages: Vec<Storage<'a>>,
    pub(crate) tensors: Vec<TensorView>,
}

impl<'a> Pickle<'a> {
    /// Parses the pickle at the beginning of `bytes`; other bytes may follow.
    ///
    /// # Errors
    /// Fails when the pickle is damaged, or when it contains a class or an opcode that a dictionary of tensors does not
    /// need.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, PickleError> {
        let root = Value::None;
        let pickle =
            Pickle { root, length: 0, sequences: vec![], dicts: vec![], storages: vec![], tensors: vec![] };
        let mut machine = Machine { rest: bytes, stack: vec![], marks: vec![], memo: HashMap::new(), pickle };
        while machine.step()? {}
        let length = bytes.len() - machine.rest.len();
        let root = machine.pop()?;
        Ok(Pickle { root, length, ..machine.pickle })
    }

    /// Returns the entries of a dictionary, or `None` for another value.
    pub(crate) fn entries(&self, value: Value<'a>) -> Option<&[(Value<'a>, Value<'a>)]> {
        if let Value::Dict(at) = value { Some(&self.dicts[at]) } else { None }
    }

    /// Returns the elements of a list or tuple.
    pub(crate) fn elements(&self, value: Value<'a>) -> Result<&[Value<'a>], PickleError> {
        match value {
            Value::Sequence(at) => Ok(&self.sequences[at]),
            _ => Err(PickleError::Damaged("a value is not a tuple")),
        }
    }
}

/// The state of the pickle machine.
struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Value<'a>>,
    /// Height of the stack at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
    pickle: Pickle<'a>,
}

/// Opcodes that call or look up something, with their names for messages. Messages give only the number of any other
/// unknown opcode.
const REFUSED: [(u8, &str); 6] =
    [(b'P', "PERSID"), (b'i', "INST"), (b'o', "OBJ"), (0x81, "NEWOBJ"), (0x82, "EXT1"), (0x92, "NEWOBJ_EX")];

impl<'a> Machine<'a> {
    /// Runs one opcode. Returns false after the last one.
    fn step(&mut self) -> Result<bool, PickleError> {
        let value = match self.byte()? {
            b'.' => return Ok(false),
            0x80 => return self.protocol(),
            0x95 => return self.take(8).map(|_| true), // FRAME, the length of a block
            b'(' => {
                self.marks.push(self.stack.len());
                return Ok(true);
            }
            b'0' => return self.pop().map(|_| true),
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i32::from_le_bytes(self.array()?).into()),
            b'K' => Value::Int(self.byte()?.into()),
            b'M' => Value::Int(u16::from_le_bytes(self.array()?).into()),
            0x8a => self.long()?,
            b'G' => Value::Bytes(self.take(8)?),
            b'X' => self.text(|machine| machine.array().map(u32::from_le_bytes))?,
            0x8c => self.text(|machine| machine.byte().map(u32::from))?,
            b'c' => self.class_by_lines()?,
            0x93 => self.class_on_stack()?,
            b'}' => self.new_dict(vec![]),
            b']' | b')' => self.new_sequence(vec![]),
            b't' | b'l' => self.pop_mark().map(|values| self.new_sequence(values))?,
            opcode @ 0x85..=0x87 => {
                let from = self.height(usize::from(opcode - 0x84))?;
                let values = self.stack.split_off(from);
                self.new_sequence(values)
            }
            b'Q' => self.storage()?,
            b'R' => self.call()?,
            b'h' => self.memo_value(|machine| machine.byte().map(u32::from))?,
            b'j' => self.memo_value(|machine| machine.array().map(u32::from_le_bytes))?,
            opcode => return self.store(opcode),
        };
        self.stack.push(value);
        Ok(true)
    }

    /// Runs the opcodes that push nothing: those that fill a container, an attribute or the memo.
    fn store(&mut self, opcode: u8) -> Result<bool, PickleError> {
        match opcode {
            b'q' => self.byte().map(u32::from).and_then(|at| self.remember(at))?,
            b'r' => self.array().map(u32::from_le_bytes).and_then(|at| self.remember(at))?,
            0x94 => self.remember(self.memo.len() as u32)?,
            b's' => {
                let from = self.height(2)?;
                let pair = self.stack.split_off(from);
                self.set_items(pair)?;
            }
            b'u' => self.pop_mark().and_then(|values| self.set_items(values))?,
            b'a' => {
                let value = self.pop()?;
                self.append(vec![value])?;
            }
            b'e' => self.pop_mark().and_then(|values| self.append(values))?,
            // The attributes of a dictionary, such as `_metadata` of a module's state.
            b'b' => {
                self.pop()?;
                let Some(Value::Dict(_)) = self.stack.last() else {
                    return Err(PickleError::Refused("attributes of an object".into()));
                };
            }
            opcode => {
                let known = REFUSED.iter().find(|(known, _)| *known == opcode);
                let name = known.map_or_else(String::new, |(_, name)| format!("{name} "));
                return Err(PickleError::Refused(format!("the opcode {name}(0x{opcode:02x})")));
            }
        }
        Ok(true)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], PickleError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(PickleError::Damaged("its pickle ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, PickleError> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        Ok(self.take(N)?.try_into().expect("N bytes"))
    }

    fn line(&mut self) -> Result<&'a str, PickleError> {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let line = self.take(end.ok_or(PickleError::Damaged("its pickle ends early"))?)?;
        self.take(1)?;
        utf8(line)
    }

    fn pop(&mut self) -> Result<Value<'a>, PickleError> {
        self.height(1)?;
        Ok(self.stack.pop().expect("a value"))
    }

    /// Returns the height of the stack below its top `count` values, which must be above the last mark.
    fn height(&self, count: usize) -> Result<usize, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let below = self.stack.len().checked_sub(count).filter(|below| *below >= floor);
        below.ok_or(PickleError::Damaged("its pickle takes a value from an empty stack"))
    }

    fn pop_mark(&mut self) -> Result<Vec<Value<'a>>, PickleError> {
        let from = self.marks.pop().ok_or(PickleError::Damaged("its pickle has no mark"))?;
        Ok(self.stack.split_off(from))
    }

    fn protocol(&mut self) -> Result<bool, PickleError> {
        match self.byte()? {
            2..=5 => Ok(true),
            other => Err(PickleError::Refused(format!("the protocol {other}"))),
        }
    }

    /// Returns the operand of `LONG1`: one byte with the length of the integer, then its bytes.
    fn long(&mut self) -> Result<Value<'a>, PickleError> {
        let count = self.byte()?.into();
        let bytes = self.take(count)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        match wide.get_mut(..bytes.len()) {
            Some(low) => low.copy_from_slice(bytes),
            None => return Ok(Value::Bytes(bytes)),
        }
        Ok(Value::Int(i64::from_le_bytes(wide)))
    }

    fn text(
        &mut self,
        length: impl FnOnce(&mut Self) -> Result<u32, PickleError>,
    ) -> Result<Value<'a>, PickleError> {
        let length = length(self)? as usize;
        Ok(Value::Text(utf8(self.take(length)?)?))
    }

    fn class_by_lines(&mut self) -> Result<Value<'a>, PickleError> {
        let module = self.line()?;
        let name = self.line()?;
        Class::find(module, name).map(Value::Class)
    }

    fn class_on_stack(&mut self) -> Result<Value<'a>, PickleError> {
        match (self.pop()?, self.pop()?) {
            (Value::Text(name), Value::Text(module)) => Class::find(module, name).map(Value::Class),
            _ => Err(PickleError::Damaged("the name of a class is not text")),
        }
    }

    fn new_sequence(&mut self, values: Vec<Value<'a>>) -> Value<'a> {
        self.pickle.sequences.push(values);
        Value::Sequence(self.pickle.sequences.len() - 1)
    }

    fn new_dict(&mut self, entries: Vec<(Value<'a>, Value<'a>)>) -> Value<'a> {
        self.pickle.dicts.push(entries);
        Value::Dict(self.pickle.dicts.len() - 1)
    }

    fn memo_value(
        &mut self,
        at: impl FnOnce(&mut Self) -> Result<u32, PickleError>,
    ) -> Result<Value<'a>, PickleError> {
        let at = at(self)?;
        self.memo.get(&at).copied().ok_or(PickleError::Damaged("its pickle uses a memo that was not set"))
    }

    fn remember(&mut self, at: u32) -> Result<(), PickleError> {
        let top = self.height(1)?;
        self.memo.insert(at, self.stack[top]);
        Ok(())
    }

    fn set_items(&mut self, values: Vec<Value<'a>>) -> Result<(), PickleError> {
        let Some(Value::Dict(at)) = self.stack.last() else {
            return Err(PickleError::Damaged(
                "its pickle puts an entry into a value that is not a dictionary",
            ));
        };
        let (pairs, odd) = values.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(PickleError::Damaged("a key of a dictionary has no value"));
        }
        self.pickle.dicts[*at].extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(())
    }

    fn append(&mut self, values: Vec<Value<'a>>) -> Result<(), PickleError> {
        let Some(Value::Sequence(at)) = self.stack.last() else {
            return Err(PickleError::Damaged("its pickle appends to a value that is not a list"));
        };
        self.pickle.sequences[*at].extend(values);
        Ok(())
    }

    /// `BINPERSID`: replaces `("storage", class, key, location, count)` by the storage. Old files have a sixth value,
    /// the view, which is `None` unless the storage is a part of another storage.
    fn storage(&mut self) -> Result<Value<'a>, PickleError> {
        let id = self.pop()?;
        let storage = match *self.pickle.elements(id)? {
            [
                Value::Text("storage"),
                Value::Class(Class::Storage(element)),
                Value::Text(key),
                _,
                Value::Int(count),
            ]
            | [
                Value::Text("storage"),
                Value::Class(Class::Storage(element)),
                Value::Text(key),
                _,
                Value::Int(count),
                Value::None,
            ] => Storage { element, key, count: size(count)? },
            _ => return Err(PickleError::Refused("a persistent id that is not a whole storage".into())),
        };
        self.pickle.storages.push(storage);
        Ok(Value::Storage(self.pickle.storages.len() - 1))
    }

    /// Executes `REDUCE`, the call of a function. Only four classes are known, and none of them runs anything.
    fn call(&mut self) -> Result<Value<'a>, PickleError> {
        let args = self.pop()?;
        let class = self.pop()?;
        let args = self.pickle.elements(args)?;
        match (class, args) {
            (Value::Class(Class::OrderedDict), []) => Ok(self.new_dict(vec![])),
            (Value::Class(Class::RebuildParameter), [tensor @ Value::Tensor(_), ..]) => Ok(*tensor),
            (
                Value::Class(Class::RebuildTensor),
                &[Value::Storage(storage), Value::Int(offset), shape, strides, ..],
            ) => {
                let shape = self.sizes(shape)?;
                let strides = self.sizes(strides)?;
                let tensor = TensorView { storage, offset: size(offset)?, shape, strides };
                self.pickle.tensors.push(tensor);
                Ok(Value::Tensor(self.pickle.tensors.len() - 1))
            }
            (Value::Class(class), _) => {
                Err(PickleError::Refused(format!("a call of {class:?} with other arguments")))
            }
            _ => Err(PickleError::Refused("a call of a value that is not a class".into())),
        }
    }
}

impl Machine<'_> {
    /// Returns the numbers of a shape or of strides.
    fn sizes(&self, value: Value<'_>) -> Result<Vec<usize>, PickleError> {
        let Value::Sequence(at) = value else {
            return Err(PickleError::Damaged("the shape of a tensor is not a tuple"));
        };
        let values = &self.pickle.sequences[at];
        // The length is checked before the copy, because a pickle can refer to the same long tuple many times.
        if values.len() > MAX_RANK {
            return Err(PickleError::Refused(format!("a tensor of {} dimensions", values.len())));
        }
        let numbers = values.iter().map(|value| match value {
            Value::Int(n) => size(*n),
            _ => Err(PickleError::Damaged("a size of a tensor is not a number")),
        });
        numbers.collect()
    }
}

fn size(n: i64) -> Result<usize, PickleError> {
    usize::try_from(n).map_err(|_| PickleError::Damaged("a size is negative"))
}

fn utf8(bytes: &[u8]) -> Result<&str, PickleError> {
    std::str::from_utf8(bytes).map_err(|_| PickleError::Damaged("a text of its pickle is not UTF-8"))
}
