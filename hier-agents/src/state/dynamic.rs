//! The base state, extended with channels that are declared at run time.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use crate::state::base::{BaseState, BaseStateUpdate, BaseStateWrite};
use hier_checkpoint::message::Messages;
use hier_core::NodeError;
use hier_core::channel::ChannelSpec;
use hier_core::checkpoint::CodecError;
use hier_core::checkpoint::delta::Rule;
use hier_core::graph::handler::IntoOutput;
use hier_core::graph::{FullState, GraphInput, Input, NodeResult, Output};
use hier_core::plumbing::Sealed;
use hier_core::reducer::ReduceError;
use hier_core::state::{
    ChannelWrite, Contains, Conversation, DynState, DynUpdate, DynWrite, Schema, SharesWith, State, Steps, Stored,
    StoredValues, Update, Values, Writes,
};

/// A [`BaseState`] with additional channels that a schema declares at run time. Use this state for agents that a
/// program builds from data. All agents of a hierarchy must use the same schema.
///
/// ```
/// use std::sync::Arc;
///
/// use hier_agents::{AgentBuilder, DynBaseState};
/// use hier_agents::prelude::*;
/// use hier_core::state::Schema;
///
/// # fn main() -> Result<(), hier_core::BuildError> {
/// let schema = Arc::new(Schema::new().last("artifact"));
/// let desk = AgentBuilder::<DynBaseState>::dynamic_react("desk", &schema).compile_as_root()?;
/// # let _ = desk;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DynBaseState {
    base: BaseState,
    more: DynState,
}

const BASE: usize = BaseState::CHANNELS.len();

impl DynBaseState {
    /// Creates a state in which all channels have their initial values.
    pub fn initial(schema: &Arc<Schema>) -> Self {
        Self { base: BaseState::default(), more: schema.initial() }
    }

    /// Returns the base state.
    pub fn base(&self) -> &BaseState {
        &self.base
    }

    /// Returns the value of an additional channel, or `None` if the channel does not exist or has no value.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.more.get(name)
    }

    /// Creates an update of the additional channels from a JSON object with a field for each channel to write. To
    /// update the base state, use [`BaseStateSetters`](crate::BaseStateSetters).
    pub fn update(&self, object: Value) -> Result<DynBaseUpdate, NodeError> {
        Ok(DynBaseUpdate::from_dynamic(self.more.update(object)?))
    }

    pub(crate) fn channels(schema: &Schema) -> Vec<ChannelSpec> {
        BaseState::CHANNELS.iter().cloned().chain(schema.channels().cloned()).collect()
    }
}

/// Calls a method of the base state or of the additional channels, depending on the index of the channel.
macro_rules! in_part {
    ($state:ident.$method:ident($channel:ident $(, $arg:ident)*)) => {
        match $channel.checked_sub(BASE) {
            Some(channel) => $state.more.$method(channel $(, $arg)*),
            None => $state.base.$method($channel $(, $arg)*),
        }
    };
}

impl Sealed for DynBaseState {}

impl Values for DynBaseState {
    const MANAGED: bool = true;
    #[doc(hidden)]
    const IS_DYNAMIC: bool = true;
    type Write = DynBaseWrite;
    type Update = DynBaseUpdate;

    fn reduce(&mut self, write: DynBaseWrite) -> Result<(), ReduceError> {
        match write {
            DynBaseWrite::Base(write) => self.base.reduce(write),
            DynBaseWrite::More(write) => self.more.reduce(write),
        }
    }

    fn check_update(&self, writes: &Writes<Self>) -> Result<(), NodeError> {
        writes.iter().try_for_each(|write| match write {
            DynBaseWrite::Base(_) => Ok(()),
            DynBaseWrite::More(write) => self.more.check_write(write),
        })
    }

    fn has_channels_of(&self, state: &Self) -> bool {
        self.more.has_channels_of(&state.more)
    }

    fn clear(&mut self, channel: usize) {
        in_part!(self.clear(channel));
    }

    fn set_steps(&mut self, steps: Steps) {
        self.base.set_steps(steps);
        self.more.set_steps(steps);
    }

    fn channel(&self, channel: usize) -> Option<&ChannelSpec> {
        in_part!(self.channel(channel))
    }

    fn write_from(&self, channel: usize, overwrite: bool, bytes: &[u8]) -> Result<DynBaseWrite, CodecError> {
        match channel.checked_sub(BASE) {
            Some(channel) => self.more.write_from(channel, overwrite, bytes).map(DynBaseWrite::More),
            None => self.base.write_from(channel, overwrite, bytes).map(DynBaseWrite::Base),
        }
    }

    fn get_any(&self, channel: usize) -> Option<&dyn Any> {
        in_part!(self.get_any(channel))
    }

    fn set_any(&mut self, channel: usize, value: &dyn Any) {
        in_part!(self.set_any(channel, value));
    }
}

impl StoredValues for DynBaseState {
    fn stored(&self, channel: usize) -> Option<&dyn Stored> {
        in_part!(self.stored(channel))
    }

    fn load(&mut self, channel: usize, bytes: &[u8]) -> Result<(), CodecError> {
        in_part!(self.load(channel, bytes))
    }

    fn merge_stored(&mut self, channel: usize, rule: &Rule<'_>, bytes: &[u8]) -> Result<bool, CodecError> {
        in_part!(self.merge_stored(channel, rule, bytes))
    }
}

impl SharesWith<Self> for DynBaseState {}

impl Contains<BaseState> for DynBaseState {
    const FIRST: Option<usize> = None;

    fn part(&self) -> &BaseState {
        &self.base
    }

    fn lift(write: BaseStateWrite) -> DynBaseWrite {
        DynBaseWrite::Base(write)
    }
}

impl<Via> Conversation<Via> for DynBaseState {
    const CHANNEL: &'static str = "messages";

    fn conversation(&self) -> &Messages {
        &self.base.messages
    }

    fn said(messages: Messages) -> DynBaseWrite {
        DynBaseWrite::Base(<BaseState as Conversation<Via>>::said(messages))
    }
}

impl Contains<Self> for DynBaseState {
    const FIRST: Option<usize> = None;

    fn part(&self) -> &Self {
        self
    }

    fn lift(write: DynBaseWrite) -> DynBaseWrite {
        write
    }
}

/// A write to a channel of a [`DynBaseState`].
#[derive(Clone, Debug)]
pub enum DynBaseWrite {
    /// A write to the base state.
    Base(BaseStateWrite),
    /// A write to an additional channel.
    More(DynWrite),
}

/// Calls a method of the write in either variant.
macro_rules! of_write {
    ($write:ident.$method:ident()) => {
        match $write {
            Self::Base(write) => write.$method(),
            Self::More(write) => write.$method(),
        }
    };
}

impl Sealed for DynBaseWrite {}

impl ChannelWrite for DynBaseWrite {
    fn channel(&self) -> usize {
        match self {
            Self::Base(write) => write.channel(),
            Self::More(write) => BASE + write.channel(),
        }
    }

    fn name(&self) -> &str {
        of_write!(self.name())
    }

    fn is_merged(&self) -> bool {
        of_write!(self.is_merged())
    }

    fn is_overwrite(&self) -> bool {
        of_write!(self.is_overwrite())
    }

    fn stored(&self) -> Option<&dyn Stored> {
        of_write!(self.stored())
    }

    fn into_any(self) -> Box<dyn Any + Send> {
        of_write!(self.into_any())
    }

    fn from_any(channel: usize, spec: &ChannelSpec, write: Box<dyn Any + Send>) -> Option<Self> {
        match channel.checked_sub(BASE) {
            Some(channel) => DynWrite::from_any(channel, spec, write).map(Self::More),
            None => BaseStateWrite::from_any(channel, spec, write).map(Self::Base),
        }
    }
}

/// An update of a [`DynBaseState`], for example the result of a node.
#[derive(Clone, Debug, Default)]
pub struct DynBaseUpdate(Writes<DynBaseState>);

impl DynBaseUpdate {
    pub(crate) fn from_dynamic(update: DynUpdate) -> Self {
        Self(update.into_writes().into_iter().map(DynBaseWrite::More).collect())
    }

    /// Adds the writes in `update`, which change the base state.
    #[must_use]
    pub fn base(self, update: BaseStateUpdate) -> Self {
        let base = update.into_writes().into_iter().map(DynBaseWrite::Base);
        Self(self.0.into_iter().chain(base).collect())
    }
}

impl Update for DynBaseUpdate {
    type State = DynBaseState;

    fn writes(&self) -> &Writes<DynBaseState> {
        &self.0
    }

    fn writes_mut(&mut self) -> &mut Writes<DynBaseState> {
        &mut self.0
    }

    fn into_writes(self) -> Writes<DynBaseState> {
        self.0
    }

    fn from_writes(writes: Writes<DynBaseState>) -> Self {
        Self(writes)
    }
}

impl IntoOutput<DynBaseState> for DynBaseUpdate {
    fn into_output(self) -> NodeResult<DynBaseState> {
        Ok(Output::update(self))
    }
}

impl GraphInput<DynBaseState, FullState> for DynBaseUpdate {
    fn into_input(self) -> Input<DynBaseState> {
        Input::New(self.0)
    }
}
