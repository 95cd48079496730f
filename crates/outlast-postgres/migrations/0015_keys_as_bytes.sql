-- Keys of any bytes (docs/decisions/0054). Stored keys stay as they are.
--
-- A key that is UTF-8 without control characters is stored as it is. Any other key is stored as
-- U+0001 and its bytes in hexadecimal, as by outlast-core's key.rs.

-- Returns the text of a key of any bytes, for the arguments of outlast.insert and outlast.signal
-- and for queries.
create function outlast.key(bytes bytea) returns text
language plpgsql immutable strict
as $$
declare
    value text;
begin
    begin
        value := convert_from(bytes, 'UTF8');
    exception when character_not_in_repertoire then
        -- Not UTF-8, or with a NUL.
        return chr(1) || encode(bytes, 'hex');
    end;
    if value ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' then
        return chr(1) || encode(bytes, 'hex');
    end if;
    return value;
end
$$;

-- Whether outlast.key returns this text for bytes that are not stored as they are. Other digits
-- would be a second text of the same key.
create function outlast.is_key_in_hex(value text) returns boolean
language plpgsql immutable
as $$
begin
    return value ~ E'^\\u0001([0-9a-f][0-9a-f])+$'
           and outlast.key(decode(substr(value, 2), 'hex')) = value;
end
$$;

-- As before, but keys may have any bytes, and those are counted.
create or replace function outlast.check_text(what text, value text, bytes_max integer) returns void
language plpgsql immutable
as $$
declare
    is_key constant boolean := what in ('correlation key', 'partition key', 'dedup key');
    bytes           integer := octet_length(value);
begin
    if value = '' then
        raise invalid_parameter_value using message = format('%s is empty', what);
    end if;
    if is_key and left(value, 1) = chr(1) then
        bytes := octet_length(value) / 2;
    end if;
    -- Before the digits are decoded: it bounds their number.
    if bytes > bytes_max then
        raise invalid_parameter_value using message =
            format('%s has %s bytes; at most %s are allowed', what, bytes, bytes_max);
    end if;
    if value ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' then
        if is_key and outlast.is_key_in_hex(value) then
            return;
        end if;
        if is_key then
            raise invalid_parameter_value using message =
                format('%s contains a control character; pass such a key through the function key(bytea)', what);
        end if;
        raise invalid_parameter_value using message =
            format('%s contains a control character, which cannot be stored', what);
    end if;
end
$$;

-- As before, but a key may have format characters: it is the caller's bytes.
create or replace function outlast.check_name(what text, value text, bytes_max integer) returns void
language plpgsql immutable
as $$
begin
    perform outlast.check_text(what, value, bytes_max);
    if what in ('correlation key', 'partition key', 'dedup key') then
        return;
    end if;
    if octet_length(value) > length(value) and value ~
        (E'[\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890-\\u0891\\u08e2\\u180e\\u200b-\\u200f\\u2028-\\u202e'
         || E'\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\U000110bd\\U000110cd\\U00013430-\\U0001343f'
         || E'\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0001\\U000e0020-\\U000e007f]') then
        raise invalid_parameter_value using message =
            format('%s contains a format character, which does not show', what);
    end if;
end
$$;

-- A new function may be called by everybody, unless that is taken back.
revoke all on function outlast.key(bytea) from public;
revoke all on function outlast.is_key_in_hex(text) from public;
